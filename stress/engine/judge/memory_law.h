// How much memory a sound malloc may use: the numbers behind the rules memory_bound, plateau, memory_return and
// mappings. They are pure functions of the run's measurements, so that both sides of each limit can be tested.
//
// The slacks are set by measurement: glibc 2.36, jemalloc 5.3.0, mimalloc 2.0.9 and gperftools 2.10 must pass every
// scenario, with room to spare. Only strict runs judge memory_return: each of these four keeps more than its bound in
// one scenario or another (gperftools all of a peak of 92 MiB in large, mimalloc 102 of 131).
#pragma once

#include <cstddef>
#include <cstdint>

namespace stress {

// What is known at a rest: no thread is in the subject.
struct RestSample {
    std::uint64_t rss_bytes;        // of the subject
    std::uint64_t live_bytes;       // asked for and not yet freed
    std::uint64_t peak_live_bytes;  // the maximum so far
    std::uint64_t peak_rss_bytes;
};

// The most that may be resident at any time for this peak of live bytes.
std::uint64_t memory_bound_bytes(std::uint64_t peak_live_bytes, std::uint64_t seat_count);

// Plateau: resident minus live bytes at the rests between laps must not keep growing. A short run may end while caches
// still fill; what they hold comes back when the threads are gone, and what has leaked does not.
struct PlateauGrowth {
    bool judged;                 // false: too few rests
    std::uint64_t grown_bytes;   // of the last third of the rests over the first third
    std::uint64_t slack_bytes;
    std::uint64_t before_bytes;  // the most beyond live bytes at a rest of the first third
    bool holds() const { return !judged || grown_bytes <= slack_bytes; }
    bool came_back(std::uint64_t excess_bytes) const { return excess_bytes <= before_bytes + slack_bytes; }
};
inline constexpr std::size_t kPlateauRestsMin = 6;
PlateauGrowth plateau_growth(const RestSample *rests, std::size_t rest_count, std::uint64_t seat_count);

// Return: what may be resident a while after everything is freed.
std::uint64_t memory_return_bound_bytes(std::uint64_t peak_rss_bytes, std::uint64_t seat_count);

// Idle: what may be resident for this much live memory when all threads have slept for a while.
std::uint64_t idle_bound_bytes(std::uint64_t live_bytes, std::uint64_t seat_count);

// Mappings: the maximum for a process that began with `first_count`, where the system's limit is `limit_count`
// (vm.max_map_count).
std::uint64_t mapping_bound_count(std::uint64_t first_count, std::uint64_t peak_live_bytes, std::uint64_t seat_count,
                                  std::uint64_t limit_count);

// vm.max_map_count of this system; its default when it cannot be read.
std::uint64_t mapping_limit_count();

}  // namespace stress
