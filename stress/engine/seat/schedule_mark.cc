// The text of a schedule mark: "0123456789abcdef:4711", hash and clock.
#include "engine/seat/schedule_mark.h"

#include <charconv>
#include <cstdio>

namespace stress {

std::string schedule_text(const ScheduleMark &mark)
{
    char text[48];
    std::snprintf(text, sizeof text, "%016llx:%llu", static_cast<unsigned long long>(mark.hash),
                  static_cast<unsigned long long>(mark.clock));
    return text;
}

bool schedule_parse(const std::string &text, ScheduleMark &mark)
{
    const std::size_t colon = text.find(':');
    if (colon != 16) return false;
    const char *end = text.data() + text.size();
    const auto clock = std::from_chars(text.data() + colon + 1, end, mark.clock);
    if (clock.ec != std::errc() || clock.ptr != end) return false;
    return std::from_chars(text.data(), text.data() + colon, mark.hash, 16).ptr == text.data() + colon;
}

}  // namespace stress
