// Identifies a seeded run: the scheduler's hash and logical clock at the end (sched.h).
#pragma once

#include <cstdint>
#include <string>

namespace stress {

struct ScheduleMark {
    std::uint64_t hash = 0, clock = 0;
    bool operator==(const ScheduleMark &) const = default;
};

// "HASH:CLOCK", 16 hexadecimal digits and a whole number.
std::string schedule_text(const ScheduleMark &mark);
bool schedule_parse(const std::string &text, ScheduleMark &mark);

}  // namespace stress
