// Rows that allocate a batch of blocks and free it in a certain order. The last batch is shortened, so that the number
// of pairs is exact.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

void fill(void **slots, std::size_t first, std::size_t last, std::size_t step, std::size_t size)
{
    for (std::size_t i = first; i < last; i += step) {
        void *const block = malloc(size);
        store(block, i);
        slots[i] = block;
    }
}

class Batch {
  public:
    Batch(const Plan &plan, std::uint32_t index) : slots_(plan.count), size_(plan.low), draw_(plan.seed, index) {}

  protected:
    std::size_t part(std::uint64_t pairs) const { return std::min<std::uint64_t>(slots_.size(), pairs); }

    std::vector<void *> slots_;
    std::size_t size_;
    Draw draw_;
};

enum class Order { kForwards, kBackwards };

template <Order kOrder> struct InOrder : Batch {
    using Batch::Batch;

    void go(std::uint64_t pairs)
    {
        void **const slots = slots_.data();
        while (pairs != 0) {
            const std::size_t count = part(pairs);
            fill(slots, 0, count, 1, size_);
            if constexpr (kOrder == Order::kForwards) {
                for (std::size_t i = 0; i < count; ++i) free(slots[i]);
            } else {
                for (std::size_t i = count; i-- > 0;) free(slots[i]);
            }
            pairs -= count;
        }
    }
};

// The order is drawn once, before the run.
class RandomOrder : Batch {
  public:
    RandomOrder(const Plan &plan, std::uint32_t index) : Batch(plan, index), order_(plan.count)
    {
        std::iota(order_.begin(), order_.end(), 0u);
        for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[draw_.below(i)]);
    }

    void go(std::uint64_t pairs)
    {
        void **const slots = slots_.data();
        const std::uint32_t *const order = order_.data();
        for (; pairs >= slots_.size(); pairs -= slots_.size()) {
            fill(slots, 0, slots_.size(), 1, size_);
            for (std::size_t i = 0; i < slots_.size(); ++i) free(slots[order[i]]);
        }
        fill(slots, 0, pairs, 1, size_);
        for (std::size_t i = 0; i < pairs; ++i) free(slots[i]);
    }

  private:
    std::vector<std::uint32_t> order_;
};

// Allocates all, frees and reallocates every other block, then frees all.
struct Interleaved : Batch {
    using Batch::Batch;

    void go(std::uint64_t pairs)
    {
        void **const slots = slots_.data();
        while (pairs != 0) {
            const std::size_t count = part(pairs);
            const std::size_t last = 2 * std::min<std::uint64_t>(count / 2, pairs - count);
            fill(slots, 0, count, 1, size_);
            for (std::size_t i = 0; i < last; i += 2) free(slots[i]);
            fill(slots, 0, last, 2, size_);
            for (std::size_t i = 0; i < count; ++i) free(slots[i]);
            pairs -= count + last / 2;
        }
    }
};

// Batches of one size each; sizes take turns, small ones more often. A batch is freed a few batches later, in an order
// that takes turns too: as allocated, backwards, or every other block and then the rest.
class Sh8 {
  public:
    Sh8(const Plan &plan, std::uint32_t) : batches_(kAge), count_(plan.count)
    {
        for (Slots &slots : batches_) slots.reserve(plan.count);
    }

    void go(std::uint64_t pairs)
    {
        while (pairs != 0) {
            Slots &slots = batches_[turn_ % kAge];
            release(slots);
            slots.resize(std::min<std::uint64_t>(count_, pairs));
            fill(slots.data(), 0, slots.size(), 1, kSizes[turn_ % std::size(kSizes)]);
            pairs -= slots.size();
            ++turn_;
        }
        for (std::size_t i = 0; i < kAge; ++i) release(batches_[i]);
    }

  private:
    using Slots = std::vector<void *>;
    static constexpr std::size_t kAge = 5;
    static constexpr std::size_t kSizes[] = {16, 24, 64, 16, 40, 128, 32, 16, 256, 48, 24, 512, 96, 32, 1000, 64};

    void release(Slots &slots)
    {
        const std::size_t count = slots.size();
        switch (released_++ % 3) {
        case 0:
            for (std::size_t i = 0; i < count; ++i) free(slots[i]);
            break;
        case 1:
            for (std::size_t i = count; i-- > 0;) free(slots[i]);
            break;
        default:
            for (std::size_t i = 0; i < count; i += 2) free(slots[i]);
            for (std::size_t i = 1; i < count; i += 2) free(slots[i]);
        }
        slots.clear();
    }

    std::vector<Slots> batches_;
    std::size_t count_, turn_ = 0, released_ = 0;
};

}  // namespace

double lifo(const Plan &plan)
{
    return run_apart<InOrder<Order::kBackwards>>(plan);
}

double fifo(const Plan &plan)
{
    return run_apart<InOrder<Order::kForwards>>(plan);
}

double random_order(const Plan &plan)
{
    return run_apart<RandomOrder>(plan);
}

double interleaved(const Plan &plan)
{
    return run_apart<Interleaved>(plan);
}

double sh8(const Plan &plan)
{
    return run_apart<Sh8>(plan);
}

}  // namespace bench
