// What tells two seeded runs apart: the hash and the logical clock of the scheduler at the end (sched.h).
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
