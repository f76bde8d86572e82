// Schedule: which thread runs and how far, from the beginning of a run to its end. --replay takes it as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

// A thread continues until it has passed this many further accesses (points.h) and is about to make the next, or until
// it ends or waits for a lock.
struct Stretch {
    static constexpr std::uint32_t kToItsEnd = UINT32_MAX;

    unsigned thread = 0;
    std::uint32_t points = kToItsEnd;
};

using Schedule = std::vector<Stretch>;

// "0:12,1:7,0": thread 0 passes 12 points, then thread 1 passes 7, then thread 0 runs to its end.
std::string schedule_print(const Schedule &schedule);

// The reverse; nullopt if the text is no schedule; `error` then says why in one line.
std::optional<Schedule> schedule_parse(const std::string &text, unsigned threads, std::string &error);

}  // namespace stress
