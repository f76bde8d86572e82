// Vector clocks (Mattern 1989; Flanagan and Freund, FastTrack, PLDI 2009). Each event of a thread has a number: 1, 2, ...
// A clock holds for each thread the number of its last event that happens before the clock's own event.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace stress::order {

constexpr unsigned kThreadsMax = 8;

struct Event {
    unsigned thread = 0;
    std::uint32_t number = 0; // 0: before the run, so it happens before everything
};

struct Clock {
    std::array<std::uint32_t, kThreadsMax> last{};

    void join(const Clock &other)
    {
        for (unsigned i = 0; i < kThreadsMax; ++i) last[i] = std::max(last[i], other.last[i]);
    }
    bool has(Event event) const { return event.number <= last[event.thread]; }
};

} // namespace stress::order
