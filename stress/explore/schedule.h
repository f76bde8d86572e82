// Schedule: who runs and how far, from the beginning of a run to its end. As text it is what --replay takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

// A thread goes on until it stands before so many further accesses (points.h), or until it ends or waits for a lock.
struct Stretch {
    static constexpr std::uint32_t kToItsEnd = UINT32_MAX;

    unsigned thread = 0;
    std::uint32_t points = kToItsEnd;
};

using Schedule = std::vector<Stretch>;

// "0:12,1:7,0": thread 0 passes 12 points, thread 1 then 7, and thread 0 goes on to its end.
std::string schedule_print(const Schedule &schedule);

// The reverse; nullopt where the text is none, and `error` says why in one line.
std::optional<Schedule> schedule_parse(const std::string &text, unsigned threads, std::string &error);

}  // namespace stress
