// CLOCK_MONOTONIC, for times that people read and for time limits; latency.h measures more finely. Thread-safe and
// async-signal-safe; allocates nothing.
#pragma once

#include <time.h>

#include <cstdint>

namespace stress {

inline double now_seconds()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

inline std::uint64_t clock_ns()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace stress
