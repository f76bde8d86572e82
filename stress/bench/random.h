// Cheap random numbers for timed loops: a linear congruential generator, of which both halves are used. A step is one
// multiplication and one addition. There is no table whose period a branch predictor could learn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

class Draw {
  public:
    // Streams of one seed differ from the first number on. The constant is splitmix64's.
    Draw(std::uint64_t seed, std::uint64_t stream) : state_((seed + stream * 0x9e3779b97f4a7c15ULL) * 2 + 1)
    {
        for (int i = 0; i < 4; ++i) step();
    }

    std::uint64_t step() { return state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL; }

    // Two independent numbers from one step, each below its limit.
    static std::size_t high_part(std::uint64_t drawn, std::uint64_t limit) { return (drawn >> 32) * limit >> 32; }
    static std::size_t low_part(std::uint64_t drawn, std::uint64_t limit)
    {
        return static_cast<std::uint32_t>(drawn) * limit >> 32;
    }

    std::size_t below(std::uint64_t limit) { return high_part(step(), limit); }
    std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }

  private:
    std::uint64_t state_;
};

// The word that a program writes into a block.
inline void store(void *block, std::uint64_t word)
{
    *static_cast<std::uint64_t *>(block) = word;
}

}  // namespace bench
