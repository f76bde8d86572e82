#include "order/malloc/scenario.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace stress::order {
namespace {

template <class... T> std::string print(const char *format, T... values)
{
    char text[256];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

} // namespace

// Calls this with the parts of a block that are used: its ends, if it is large.
template <class Use> void Blocks::each_part(std::size_t bytes, Use use)
{
    constexpr std::size_t kEndBytes = 512;
    if (bytes <= 2 * kEndBytes) return use(std::size_t{0}, bytes);
    use(std::size_t{0}, kEndBytes);
    use(bytes - kEndBytes, bytes);
}

void Blocks::check(const Block &block, std::size_t bytes, unsigned char fill, const char *when) const
{
    Machine &machine = *Machine::current();
    each_part(block.bytes, [&](std::size_t from, std::size_t to) {
        to = std::min(to, bytes);
        if (from >= to) return;
        machine.plain(block.start + from, to - from, false, 0);
        for (std::size_t i = from; i < to; ++i) {
            if (block.start[i] == fill) continue;
            machine.fail(print("%s: byte %zu of the block of %zu bytes at %p is %#x and was %#x", when, i, block.bytes,
                               static_cast<void *>(block.start), block.start[i], fill));
        }
    });
}

void Blocks::fill(Block &block, void *start, std::size_t bytes, const char *function)
{
    Machine &machine = *Machine::current();
    if (machine.keeps_steps()) machine.note(print("%s(%zu) = %p", function, bytes, start));
    if (start == nullptr && allows_null_) return;
    if (start == nullptr) machine.fail(print("%s(%zu) returned NULL", function, bytes));
    auto *bytes_of = static_cast<unsigned char *>(start);
    for (const Block &other : blocks_) {
        if (&other == &block || other.start == nullptr) continue;
        if (bytes_of < other.start + other.bytes && other.start < bytes_of + bytes)
            machine.fail(print("the block of %zu bytes at %p overlaps a live one of %zu at %p", bytes, start,
                               other.bytes, static_cast<void *>(other.start)));
    }
    block.start = bytes_of;
    block.bytes = bytes;
    block.fill = static_cast<unsigned char>(++block.filled * 16 + (&block - blocks_) % 16 + 1);
    if (block.fill == 0) block.fill = 0xff;
    each_part(bytes, [&](std::size_t from, std::size_t to) {
        machine.plain(bytes_of + from, to - from, true, 0);
        std::memset(bytes_of + from, block.fill, to - from);
    });
}

void Blocks::allocate(unsigned slot, std::size_t bytes)
{
    fill(blocks_[slot], subject_->malloc(bytes), bytes, "malloc");
}

void Blocks::zeroed(unsigned slot, std::size_t bytes)
{
    void *start = subject_->calloc(1, bytes);
    if (start != nullptr) check({static_cast<unsigned char *>(start), bytes}, bytes, 0, "calloc");
    fill(blocks_[slot], start, bytes, "calloc");
}

void Blocks::aligned(unsigned slot, std::size_t bytes, std::size_t align)
{
    if (subject_->aligned_alloc == nullptr) return;
    void *start = subject_->aligned_alloc(align, bytes);
    if (reinterpret_cast<std::uintptr_t>(start) % align != 0)
        Machine::current()->fail(print("aligned_alloc(%zu, %zu) returned %p", align, bytes, start));
    fill(blocks_[slot], start, bytes, "aligned_alloc");
}

void Blocks::resize(unsigned slot, std::size_t bytes)
{
    Block &block = blocks_[slot];
    const Block old = block;
    check(old, old.bytes, old.fill, "before realloc");
    block.start = nullptr; // realloc may return these bytes
    void *start = subject_->realloc(old.start, bytes);
    if (start == nullptr && allows_null_) {
        block.start = old.start;
        return;
    }
    if (start != nullptr)
        check({static_cast<unsigned char *>(start), old.bytes}, std::min(bytes, old.bytes), old.fill, "after realloc");
    fill(block, start, bytes, "realloc");
}

void Blocks::free(unsigned slot)
{
    Block &block = blocks_[slot];
    check(block, block.bytes, block.fill, "before free");
    void *start = block.start;
    Machine &machine = *Machine::current();
    if (machine.keeps_steps()) machine.note(print("free(%p)", start));
    block.start = nullptr;
    free_keeping_errno(*subject_, start);
}

void Blocks::free_keeping_errno(const Subject &subject, void *start)
{
    constexpr int kErrno = ERANGE; // no call for memory sets it
    errno = kErrno;
    subject.free(start);
    if (const int now = errno; now != kErrno) Machine::current()->fail(print("free(%p) set errno to %d", start, now));
}

void Blocks::trim()
{
    if (subject_->trim != nullptr) subject_->trim();
}

void Blocks::give(unsigned slot)
{
    Machine &machine = *Machine::current();
    machine.turn(&blocks_[slot]);
    machine.release(&blocks_[slot]);
    blocks_[slot].is_given = true;
    machine.wake(&blocks_[slot], kThreadsMax);
}

void Blocks::take(unsigned slot)
{
    Machine &machine = *Machine::current();
    machine.turn(&blocks_[slot]);
    while (!blocks_[slot].is_given) machine.wait(&blocks_[slot]);
    machine.acquire(&blocks_[slot]);
    blocks_[slot].is_given = false;
}

bool Blocks::hold(unsigned slot)
{
    Machine &machine = *Machine::current();
    Block &block = blocks_[slot];
    machine.turn(&block);
    if (block.is_held) return false;
    block.is_held = true;
    if (block.start != nullptr) machine.acquire(&block); // an empty slot orders nothing
    return true;
}

void Blocks::drop(unsigned slot)
{
    Block &block = blocks_[slot];
    if (block.start != nullptr) Machine::current()->release(&block);
    block.is_held = false;
}

void Blocks::put(unsigned slot, void *start, std::size_t bytes, const char *function)
{
    fill(blocks_[slot], start, bytes, function);
}

namespace {

constexpr std::size_t kSizes[] = {16, 48, 64, 200, 1000, 5000};

std::size_t size_of(unsigned index)
{
    return kSizes[index % std::size(kSizes)];
}

void start(Blocks &blocks, unsigned self, unsigned threads)
{
    const unsigned next = (self + 1) % threads;
    blocks.allocate(self * 8, size_of(self));
    blocks.give(self * 8);
    blocks.take(next * 8);
    blocks.free(next * 8);
}

void exchange_some(Blocks &blocks, unsigned self, unsigned threads, unsigned count)
{
    const unsigned next = (self + 1) % threads;
    for (unsigned i = 0; i < count; ++i) {
        blocks.allocate(self * 8 + i, size_of(self + i));
        blocks.give(self * 8 + i);
    }
    for (unsigned i = 0; i < count; ++i) {
        blocks.take(next * 8 + i);
        blocks.free(next * 8 + i);
        blocks.allocate(self * 8 + 4 + i, size_of(self + i));
    }
    for (unsigned i = 0; i < count; ++i) blocks.free(self * 8 + 4 + i);
}

void exchange(Blocks &blocks, unsigned self, unsigned threads)
{
    exchange_some(blocks, self, threads, 2);
}

void exchange_one(Blocks &blocks, unsigned self, unsigned threads)
{
    exchange_some(blocks, self, threads, 1);
}

void remote_free(Blocks &blocks, unsigned self, unsigned threads)
{
    constexpr unsigned kBlocks = 3;
    if (self > 0) {
        for (unsigned i = 0; i < kBlocks; ++i) {
            blocks.take(self * 8 + i);
            blocks.free(self * 8 + i);
        }
        return;
    }
    for (unsigned i = 0; i < kBlocks; ++i) {
        for (unsigned other = 1; other < threads; ++other) {
            blocks.allocate(other * 8 + i, 64);
            blocks.give(other * 8 + i);
        }
        blocks.allocate(i, 64);
        blocks.free(i);
    }
    blocks.zeroed(0, 64);
    blocks.free(0);
}

void thread_end(Blocks &blocks, unsigned self, unsigned threads)
{
    if (self == 0) {
        for (unsigned other = 1; other < threads; ++other) {
            for (unsigned i = 0; i < 2; ++i) {
                blocks.allocate(other * 8 + i, size_of(i));
                blocks.give(other * 8 + i);
            }
        }
        return; // this thread ends while others free its blocks
    }
    for (unsigned i = 0; i < 2; ++i) {
        blocks.take(self * 8 + i);
        blocks.free(self * 8 + i);
    }
    blocks.allocate(self * 8, size_of(0));
    blocks.free(self * 8);
}

void adoption(Blocks &blocks, unsigned self, unsigned threads)
{
    for (unsigned i = 0; i < 3; ++i) blocks.allocate(self * 8 + i, 64);
    blocks.free(self * 8);
    blocks.give(self * 8 + 1);
    if (self + 1 < threads) return; // this thread ends with one block live and one given away
    for (unsigned other = 0; other < threads; ++other) {
        blocks.take(other * 8 + 1);
        blocks.free(other * 8 + 1);
        blocks.allocate(other * 8 + 3, 64);
    }
    for (unsigned other = 0; other < threads; ++other) blocks.free(other * 8 + 3);
}

void resize_beside_free(Blocks &blocks, unsigned self, unsigned threads)
{
    const unsigned next = (self + 1) % threads;
    blocks.allocate(self * 8, 100);
    blocks.give(self * 8);
    blocks.take(next * 8);
    blocks.resize(next * 8, 3000);
    blocks.resize(next * 8, 40);
    blocks.free(next * 8);
}

void huge_beside_huge(Blocks &blocks, unsigned self, unsigned threads)
{
    const unsigned next = (self + 1) % threads;
    constexpr std::size_t kBytes = 5 << 20;
    blocks.allocate(self * 8, kBytes);
    blocks.give(self * 8);
    blocks.take(next * 8);
    blocks.free(next * 8);
    blocks.allocate(self * 8 + 1, kBytes);
    blocks.free(self * 8 + 1);
}

// What one thread makes others find without a block of it: its heap, its slabs, its huge blocks.
void trim_beside(Blocks &blocks, unsigned self, unsigned)
{
    constexpr std::size_t kBytes = 5 << 20;
    if (self > 0) {
        blocks.trim();
        blocks.allocate(self * 8, kBytes);
        blocks.trim();
        blocks.free(self * 8);
        return;
    }
    blocks.allocate(0, 64);
    blocks.allocate(1, kBytes);
    blocks.free(1);
    blocks.allocate(2, 40000);
    blocks.free(0);
    blocks.free(2);
    blocks.trim();
}

constexpr Scenario kScenarios[] = {
    {"start", "the first calls of the process, by several threads", start, true},
    {"exchange", "blocks that each thread frees for the next one", exchange},
    {"exchange-one", "a block that each thread frees for the next one: small enough for a whole search", exchange_one},
    {"remote-free", "a list of remote frees that its owner takes, beside its own frees", remote_free},
    {"thread-end", "blocks that are freed while their thread ends", thread_end},
    {"adoption", "heaps of ended threads that another one takes over", adoption},
    {"realloc", "blocks of another thread that grow and shrink", resize_beside_free},
    {"huge", "huge blocks, cached and found by address", huge_beside_huge},
    {"trim", "heaps, slabs and huge blocks that a trim finds beside their thread", trim_beside},
    {"trim-start", "the same, from the first calls of the process on", trim_beside, true},
};

} // namespace

std::span<const Scenario> scenarios()
{
    return kScenarios;
}

std::vector<Scenario> scenarios_with(const Subject &subject)
{
    std::vector<Scenario> all(std::begin(kScenarios), std::end(kScenarios));
    for (const order_scenario *each = subject.scenarios; each != nullptr && each->name != nullptr; ++each)
        all.push_back({each->name, each->hunts, nullptr, false, each});
    return all;
}

} // namespace stress::order
