// Rows in which one thread allocates and another frees.
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

// A ring for one producer and one consumer. Each side reads the other's index only if the value that it remembers says
// full or empty, so the cache lines of the indices move only once in many blocks.
class Ring {
  public:
    void push(void *block, Seat &seat)
    {
        const std::uint64_t at = head_.load(std::memory_order_relaxed);
        while (at - tail_seen_ == kSlots) {
            // acquire: the consumer has read the slot. Pairs with the release in pop.
            tail_seen_ = tail_.load(std::memory_order_acquire);
            if (at - tail_seen_ == kSlots) pause(push_tries_, seat);
        }
        slots_[at % kSlots] = block;
        // release: publishes the slot and the block's word. Pairs with the acquire in pop.
        head_.store(at + 1, std::memory_order_release);
    }

    void *pop(Seat &seat)
    {
        const std::uint64_t at = tail_.load(std::memory_order_relaxed);
        while (at == head_seen_) {
            // acquire: the slot and the block are visible. Pairs with the release in push.
            head_seen_ = head_.load(std::memory_order_acquire);
            if (at == head_seen_) pause(pop_tries_, seat);
        }
        void *const block = slots_[at % kSlots];
        // release: the slot has been read. Pairs with the acquire in push.
        tail_.store(at + 1, std::memory_order_release);
        return block;
    }

  private:
    static constexpr std::uint64_t kSlots = 1024;
    static constexpr std::uint32_t kSpins = 64;

    // Gives up the core now and then, in case the other side waits for it.
    static void pause(std::uint32_t &tries, Seat &seat)
    {
        if (seat.turn()) return;
        if (++tries % kSpins == 0) {
            sched_yield();
        } else {
            __builtin_ia32_pause();
        }
    }

    alignas(64) std::atomic<std::uint64_t> head_{0};
    std::uint64_t tail_seen_ = 0;
    std::uint32_t push_tries_ = 0;
    alignas(64) std::atomic<std::uint64_t> tail_{0};
    std::uint64_t head_seen_ = 0;
    std::uint32_t pop_tries_ = 0;
    alignas(64) void *slots_[kSlots];
};

void produce(Ring &ring, Seat &seat, Draw &draw, const Plan &plan, std::uint64_t pairs)
{
    const std::uint64_t low = plan.low, range = plan.high - low + 1;
    for (; pairs != 0; --pairs) {
        const std::uint64_t drawn = draw.step();
        void *const block = malloc(low + Draw::low_part(drawn, range));
        store(block, drawn);
        ring.push(block, seat);
    }
}

void consume(Ring &ring, Seat &seat, std::uint64_t pairs)
{
    for (; pairs != 0; --pairs) free(ring.pop(seat));
}

constexpr std::size_t kBatchBlocks = 4096;

struct Batch {
    Batch *next;
    std::size_t count;
    void *blocks[kBatchBlocks];
};

// A list of batches that all threads share. Its length is limited; otherwise threads that allocate fast would fill the
// memory.
class Batches {
  public:
    void begin(std::uint32_t producers)
    {
        const std::lock_guard hold(lock_);
        producers_ += producers;
    }

    void end()
    {
        const std::lock_guard hold(lock_);
        --producers_;
        filled_.notify_all();
    }

    void put(Batch *batch, Seat &seat)
    {
        seat.turn();
        std::unique_lock hold(lock_);
        wait(hold, emptied_, seat, [this] { return length_ < kLength; });
        batch->next = first_;
        first_ = batch;
        ++length_;
        filled_.notify_one();
    }

    // Null: the list is empty and no producer is left.
    Batch *take(Seat &seat)
    {
        std::unique_lock hold(lock_);
        wait(hold, filled_, seat, [this] { return first_ != nullptr || producers_ == 0; });
        Batch *const batch = first_;
        if (batch == nullptr) return nullptr;
        first_ = batch->next;
        --length_;
        emptied_.notify_one();
        return batch;
    }

  private:
    static constexpr int kLength = 100;

    // If the seats take turns, only another one's turn can change anything.
    template <typename Condition>
    static void wait(std::unique_lock<std::mutex> &hold, std::condition_variable &changed, Seat &seat, Condition holds)
    {
        while (!holds()) {
            hold.unlock();
            const bool others_ran = seat.turn();
            hold.lock();
            if (!others_ran) changed.wait(hold, holds);
        }
    }

    std::mutex lock_;
    std::condition_variable filled_, emptied_;
    Batch *first_ = nullptr;
    int length_ = 0;
    std::uint32_t producers_ = 0;
};

// The sizes of xmalloc-test up to 512 bytes. The distances grow, and not every size is a power of two.
constexpr std::size_t kBatchSizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512};

void allocate_batches(Batches &batches, Seat &seat, Draw &draw, std::uint64_t pairs)
{
    while (pairs != 0) {
        Batch *const batch = static_cast<Batch *>(malloc(sizeof(Batch)));
        batch->count = pairs < kBatchBlocks ? pairs : kBatchBlocks;
        for (std::size_t i = 0; i < batch->count; ++i) {
            void *const block = malloc(kBatchSizes[draw.below(std::size(kBatchSizes))]);
            store(block, i);
            batch->blocks[i] = block;
        }
        pairs -= batch->count;
        batches.put(batch, seat);
    }
    batches.end();
}

void free_batches(Batches &batches, Seat &seat)
{
    while (Batch *const batch = batches.take(seat)) {
        for (std::size_t i = 0; i < batch->count; ++i) free(batch->blocks[i]);
        free(batch);
    }
}

}  // namespace

double remote_free(const Plan &plan)
{
    const std::uint32_t couples = plan.threads / 2;
    std::vector<Ring> rings(couples);
    return Team(plan.threads, plan.turns).run([&](Seat &seat) {
        const std::uint32_t couple = seat.index / 2;
        Ring &ring = rings[couple];
        const std::uint64_t warm_pairs = Plan::share(plan.warm_ops, couple, couples);
        const std::uint64_t pairs = Plan::share(plan.ops, couple, couples);
        if (seat.index % 2 == 0) {
            Draw draw(plan.seed, couple);
            produce(ring, seat, draw, plan, warm_pairs);
            seat.start();
            produce(ring, seat, draw, plan, pairs);
        } else {
            consume(ring, seat, warm_pairs);
            seat.start();
            consume(ring, seat, pairs);
        }
        seat.finish();
    });
}

double all_remote(const Plan &plan)
{
    const std::uint32_t producers = plan.threads / 2;
    Batches warm, timed;
    warm.begin(producers);
    timed.begin(producers);
    return Team(plan.threads, plan.turns).run([&](Seat &seat) {
        if (seat.index % 2 == 0) {
            Draw draw(plan.seed, seat.index);
            allocate_batches(warm, seat, draw, Plan::share(plan.warm_ops, seat.index / 2, producers));
            seat.start();
            allocate_batches(timed, seat, draw, Plan::share(plan.ops, seat.index / 2, producers));
        } else {
            free_batches(warm, seat);
            seat.start();
            free_batches(timed, seat);
        }
        seat.finish();
    });
}

}  // namespace bench
