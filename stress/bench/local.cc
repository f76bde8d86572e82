// Rows in which each thread works on its own blocks, one at a time.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

// A working set: each step frees a random block and allocates another in its slot.
class RandomMixed {
  public:
    RandomMixed(const Plan &plan, std::uint32_t index)
        : draw_(plan.seed, index), slots_(plan.count), low_(plan.low), range_(plan.high - plan.low + 1)
    {
        for (void *&slot : slots_) slot = fresh(draw_.step());
    }
    ~RandomMixed()
    {
        for (void *slot : slots_) free(slot);
    }

    void go(std::uint64_t pairs)
    {
        Draw draw = draw_;  // a local copy: the compiler cannot know that malloc does not change a member
        void **const slots = slots_.data();
        const std::uint64_t count = slots_.size(), low = low_, range = range_;
        for (; pairs != 0; --pairs) {
            const std::uint64_t drawn = draw.step();
            void *&slot = slots[Draw::high_part(drawn, count)];
            free(slot);
            void *const block = malloc(low + Draw::low_part(drawn, range));
            store(block, drawn);
            slot = block;
        }
        draw_ = draw;
    }

  private:
    void *fresh(std::uint64_t drawn)
    {
        void *const block = malloc(low_ + Draw::low_part(drawn, range_));
        store(block, drawn);
        return block;
    }

    Draw draw_;
    std::vector<void *> slots_;
    std::size_t low_, range_;
};

// The same with sizes evenly spread on a logarithmic scale; also writes the last word of each block.
class LargeMixed {
  public:
    LargeMixed(const Plan &plan, std::uint32_t index) : draw_(plan.seed, index), slots_(plan.count), sizes_(kSizes)
    {
        const double low = std::log2(static_cast<double>(plan.low)), high = std::log2(static_cast<double>(plan.high));
        for (std::size_t &size : sizes_) {
            const double part = static_cast<double>(draw_.below(1 << 24)) / (1 << 24);
            size = static_cast<std::size_t>(std::exp2(low + part * (high - low)));
        }
        for (void *&slot : slots_) slot = fresh(draw_.step());
    }
    ~LargeMixed()
    {
        for (void *slot : slots_) free(slot);
    }

    void go(std::uint64_t pairs)
    {
        for (; pairs != 0; --pairs) {
            const std::uint64_t drawn = draw_.step();
            void *&slot = slots_[Draw::high_part(drawn, slots_.size())];
            free(slot);
            slot = fresh(drawn);
        }
    }

  private:
    static constexpr std::size_t kSizes = 4096;

    void *fresh(std::uint64_t drawn)
    {
        const std::size_t size = sizes_[Draw::low_part(drawn, kSizes)];
        void *const block = malloc(size);
        store(block, drawn);
        store(static_cast<char *>(block) + (size / 8 - 1) * 8, drawn);
        return block;
    }

    Draw draw_;
    std::vector<void *> slots_;
    std::vector<std::size_t> sizes_;
};

// The same in mappings; writes each page of a block, as a program does that fills it.
class HugeMixed {
  public:
    HugeMixed(const Plan &plan, std::uint32_t index)
        : draw_(plan.seed, index), slots_(plan.count), low_(plan.low), range_(plan.high - plan.low + 1)
    {
        for (void *&slot : slots_) slot = fresh();
    }
    ~HugeMixed()
    {
        for (void *slot : slots_) free(slot);
    }

    void go(std::uint64_t pairs)
    {
        for (; pairs != 0; --pairs) {
            void *&slot = slots_[draw_.below(slots_.size())];
            free(slot);
            slot = fresh();
        }
    }

  private:
    static constexpr std::size_t kPage = 4096;

    void *fresh()
    {
        const std::size_t size = low_ + draw_.below(range_);
        char *const block = static_cast<char *>(malloc(size));
        for (std::size_t at = 0; at < size; at += kPage) store(block + at, size);
        return block;
    }

    Draw draw_;
    std::vector<void *> slots_;
    std::size_t low_, range_;
};

class Tight {
  public:
    Tight(const Plan &plan, std::uint32_t) : size_(plan.low) {}

    void go(std::uint64_t pairs) const
    {
        const std::size_t size = size_;
        for (; pairs != 0; --pairs) {
            void *const block = malloc(size);
            store(block, pairs);
            free(block);
        }
    }

  private:
    std::size_t size_;
};

// A block lives only until the next few are allocated.
class ShortLived {
  public:
    ShortLived(const Plan &plan, std::uint32_t) : size_(plan.low)
    {
        for (void *&slot : ring_) slot = malloc(size_);
    }
    ~ShortLived()
    {
        for (void *slot : ring_) free(slot);
    }

    void go(std::uint64_t pairs)
    {
        const std::size_t size = size_;
        for (; pairs != 0; --pairs) {
            void *&slot = ring_[pairs % kLive];
            free(slot);
            char *const block = static_cast<char *>(malloc(size));
            store(block, pairs);
            store(block + 16, pairs);
            store(block + 32, pairs);
            store(block + 48, pairs);
            slot = block;
        }
    }

  private:
    static constexpr std::size_t kLive = 8;

    std::size_t size_;
    void *ring_[kLive];
};

}  // namespace

double random_mixed(const Plan &plan)
{
    return run_apart<RandomMixed>(plan);
}

double large_mixed(const Plan &plan)
{
    return run_apart<LargeMixed>(plan);
}

double huge_mixed(const Plan &plan)
{
    return run_apart<HugeMixed>(plan);
}

double tight(const Plan &plan)
{
    return run_apart<Tight>(plan);
}

double short_lived(const Plan &plan)
{
    return run_apart<ShortLived>(plan);
}

}  // namespace bench
