// A thread of a cell, and the loops that it runs. `pairs` are those of all threads together; each does its share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/random.h"

namespace bench {

inline constexpr std::uint32_t kWorkersMost = 9;
inline constexpr std::uint64_t kLiveMost = 32768, kSlots = 2 * kLiveMost;

enum class How : std::uint8_t { kMalloc, kCalloc, kAligned };

struct Calls {
    How how = How::kMalloc;
    std::size_t align = 0;
    bool touched = false; // each page of a block is written, else its first byte
    bool varying = false; // half of the size to the size
};

[[noreturn]] void die(const char *text);

struct Worker {
    Worker(std::uint32_t number, std::uint32_t of, std::size_t bytes, std::uint64_t blocks, const Calls &by);

    void *take() { return take(calls.varying ? draw.between(size / 2, size) : size); }
    void *take(std::size_t bytes);
    void give(void *block);
    void *resize(void *block, std::size_t bytes);

    void fill(); // `live` blocks. At a limit, until malloc returns NULL, which lowers `live`
    void begin(); // forgets what the worst calls of the warm-up took
    std::uint64_t share(std::uint64_t pairs) const { return pairs / threads + (index < pairs % threads ? 1 : 0); }

    const std::uint32_t index, threads;
    const std::size_t size;
    std::uint64_t live;
    const Calls calls;
    bool timed = false, may_fail = false;
    Draw draw;
    void **const slots; // kSlots
    std::uint64_t nulls = 0, worst_malloc_ns = 0, worst_free_ns = 0, paused_ns = 0;

  private:
    void *checked(void *block, std::size_t bytes);
};

enum class Order : std::uint8_t { kForwards, kBackwards, kRandom };
enum class Sides : std::uint8_t { kHalves, kOneToMany, kManyToOne };

void tight(Worker &worker, std::uint64_t pairs);
template <Order kOrder> void batch(Worker &worker, std::uint64_t pairs);
void queue(Worker &worker, std::uint64_t pairs);
void replace(Worker &worker, std::uint64_t pairs);
template <bool kUp> void resize(Worker &worker, std::uint64_t pairs); // each step is a pair
template <Sides kSides> void pass(Worker &worker, std::uint64_t pairs);
template <bool kHandOver> void requests(Worker &worker, std::uint64_t pairs);
void forks(Worker &worker, std::uint64_t pairs);
void bursts(Worker &worker, std::uint64_t pairs);
template <int kKeptEach> void phases(Worker &worker, std::uint64_t pairs);
void late(Worker &worker, std::uint64_t pairs);
void evict(Worker &worker, std::uint64_t pairs);

} // namespace bench
