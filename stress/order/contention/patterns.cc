#include "order/contention/patterns.h"

#include <algorithm>

namespace stress::order {
namespace {

constexpr unsigned kCounted = 1000; // operations of a thread
constexpr unsigned kHugeShare = 25; // with huge blocks, one in 25 of these
constexpr unsigned kWindow = 32; // blocks of a thread
constexpr unsigned kRing = 64; // blocks between a producer and its consumer
constexpr unsigned kShared = 4; // slots for each thread that all threads use

} // namespace

Work::Work(Counted &machine, const Subject &subject, const OwnHeaps &heaps, unsigned threads, std::uint64_t seed,
           unsigned warm)
    : machine_(&machine), subject_(&subject), heaps_(&heaps), threads_(threads), warm_(warm),
      slots_(threads * 2 * kRing), put_(threads), taken_(threads)
{
    for (unsigned i = 0; i < threads; ++i) random_.push_back(seed * 0x9E3779B97F4A7C15ULL + i);
    windows_.reserve(threads * (2 + generations()));
    for (unsigned i = 0; i < 2 * threads; ++i) windows_.push_back(i);
}

unsigned Work::generations() const
{
    return (warm_ + kCounted) / kEach;
}

std::uint64_t Work::draw(unsigned self, std::uint64_t below) // splitmix64
{
    std::uint64_t value = random_[self] += 0x9E3779B97F4A7C15ULL;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ value >> 27) * 0x94D049BB133111EBULL;
    return (value ^ value >> 31) % below;
}

void *Work::check(void *block, std::size_t bytes)
{
    if (block == nullptr) machine_->fail("malloc(" + std::to_string(bytes) + ") returned NULL");
    machine_->use(block, sizeof(void *), true);
    *static_cast<void **>(block) = block;
    return block;
}

void *Work::take(std::size_t bytes)
{
    return check(subject_->malloc(bytes), bytes);
}

void Work::give(void *block)
{
    if (block == nullptr) return;
    machine_->use(block, sizeof(void *), false);
    if (*static_cast<void **>(block) != block) machine_->fail("a block has lost its content");
    subject_->free(block);
}

// Frees what was in the slot. Nobody sees the slot empty, nor with a block that another thread frees.
void Work::swap(void *&slot, void *block)
{
    std::swap(slot, block);
    give(block);
    machine_->operation();
}

// The end of a thread costs once, and is no part of the figures. No thread ends while another one frees its blocks.
void Work::finish()
{
    machine_->count(false);
    finished_++;
    while (finished_ < threads_) machine_->idle();
}

void Work::larson(unsigned self, unsigned generation)
{
    const unsigned window = windows_[first_window_++];
    machine_->count(generation + kCounted / kEach >= generations());
    for (unsigned i = 0; i < kEach; ++i) swap(slots_[window * kWindow + draw(self, kWindow)], take(small(self)));
    windows_.push_back(window);
}

void Work::remote_free(unsigned self)
{
    const unsigned pair = self / 2, ring = pair * kRing;
    for (unsigned i = 0; i < warm_ + kCounted; ++i) {
        machine_->count(i >= warm_);
        if (self % 2 == 0) {
            while (put_[pair] - taken_[pair] == kRing) machine_->idle();
            void *block = take(small(self));
            slots_[ring + put_[pair]++ % kRing] = block;
        } else {
            while (put_[pair] == taken_[pair]) machine_->idle();
            give(slots_[ring + taken_[pair]++ % kRing]);
            machine_->operation();
        }
    }
    finish();
}

void Work::exchange(unsigned self)
{
    for (unsigned i = 0; i < warm_ + kCounted; ++i) {
        machine_->count(i >= warm_);
        void *block = take(small(self));
        swap(slots_[draw(self, threads_ * kShared)], block);
    }
    finish();
}

void Work::churn(unsigned self)
{
    for (unsigned i = 0; i < warm_ + kCounted; ++i) {
        machine_->count(i >= warm_);
        swap(slots_[self * kWindow + draw(self, kWindow)], take(small(self)));
    }
    finish();
}

// A block in 8 is freed by the next thread.
void Work::own_heaps(unsigned self)
{
    void *heap = heaps_->make();
    if (heap == nullptr) machine_->fail("a new heap is NULL");
    for (unsigned i = 0; i < warm_ + kCounted; ++i) {
        machine_->count(i >= warm_);
        const std::size_t bytes = small(self);
        void *block = check(heaps_->malloc(heap, bytes), bytes);
        const unsigned window = i % 8 == 0 ? (self + 1) % threads_ : self;
        swap(slots_[window * kWindow + draw(self, kWindow)], block);
    }
    finish();
}

// 3 to 6 MiB. A block in 4 is freed by the next thread.
void Work::huge(unsigned self)
{
    constexpr unsigned kBlocks = 2;
    for (unsigned i = 0; i < (warm_ + kCounted) / kHugeShare; ++i) {
        machine_->count(i >= warm_ / kHugeShare);
        void *block = take((3 << 20) + draw(self, 3 << 20));
        const unsigned window = i % 4 == 0 ? (self + 1) % threads_ : self;
        swap(slots_[window * kBlocks + draw(self, kBlocks)], block);
    }
    finish();
}

std::span<const Pattern> patterns()
{
    static constexpr Pattern kPatterns[] = {
        {"larson", "threads replace random blocks of a window, end, and leave it to a thread that starts",
         [](Work &work, unsigned self, unsigned generation) { work.larson(self, generation); }, true},
        {"remote-free", "half of the threads allocate, and each has another one that frees",
         [](Work &work, unsigned self, unsigned) { work.remote_free(self); }},
        {"exchange", "every thread frees blocks of every other one",
         [](Work &work, unsigned self, unsigned) { work.exchange(self); }},
        {"churn", "each thread frees its own blocks", [](Work &work, unsigned self, unsigned) { work.churn(self); }},
        {"own-heaps", "each thread has a heap of its own; the next thread frees a block in 8",
         [](Work &work, unsigned self, unsigned) { work.own_heaps(self); }, false, true},
        {"huge", "blocks of 3 to 6 MiB; the next thread frees one in 4",
         [](Work &work, unsigned self, unsigned) { work.huge(self); }},
    };
    return kPatterns;
}

} // namespace stress::order
