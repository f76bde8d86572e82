// Random numbers: splitmix64 to derive seeds, xoshiro256** to draw. Both are written out so that a
// seed means the same on every machine and library. One seed decides everything in a run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

// One step of splitmix64: advances the state and returns a well-mixed value.
inline std::uint64_t splitmix_next(std::uint64_t &state)
{
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

class Rng {
  public:
    // Streams of one seed are independent; a stream is a thread, or a phase of a thread.
    Rng(std::uint64_t seed, std::uint64_t stream)
    {
        std::uint64_t state = seed;
        state = splitmix_next(state) ^ (stream * 0xd1342543de82ef95ULL);
        for (std::uint64_t &word : state_) word = splitmix_next(state);
    }

    std::uint64_t next()
    {
        const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate_left(state_[3], 45);
        return result;
    }

    // A number below `limit`, which is at least 1. Multiply-high: the bias is below limit / 2^64.
    std::uint64_t below(std::uint64_t limit)
    {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint64_t>((static_cast<Wide>(next()) * limit) >> 64);
    }

    // A number from low to high, both included.
    std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }

    bool one_in(std::uint64_t n) { return below(n) == 0; }

  private:
    static std::uint64_t rotate_left(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

    std::uint64_t state_[4];
};

// A fresh seed from the kernel (or the clock where getrandom is refused). Below 2^53 so that every
// JSON reader gives it back exactly.
std::uint64_t seed_draw();

}  // namespace stress
