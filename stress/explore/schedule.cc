#include "explore/schedule.h"

#include <charconv>
#include <string_view>

namespace stress {
namespace {

bool read_number(std::string_view text, std::uint32_t &number)
{
    const char *end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    return error == std::errc{} && rest == end;
}

}  // namespace

std::string schedule_print(const Schedule &schedule)
{
    std::string text;
    for (const Stretch &stretch : schedule) {
        if (!text.empty()) text += ',';
        text += std::to_string(stretch.thread);
        if (stretch.points != Stretch::kToItsEnd) text += ":" + std::to_string(stretch.points);
    }
    return text;
}

std::optional<Schedule> schedule_parse(const std::string &text, unsigned threads, std::string &error)
{
    Schedule schedule;
    std::string_view rest = text;
    for (;;) {
        const std::string_view part = rest.substr(0, rest.find(','));
        const std::size_t colon = part.find(':');
        Stretch stretch;
        if (!read_number(part.substr(0, colon), stretch.thread) ||
            (colon != part.npos && !read_number(part.substr(colon + 1), stretch.points))) {
            error =
                "'" + std::string(part) + "' is no stretch of a schedule: THREAD:POINTS, or THREAD for one to its end";
            return std::nullopt;
        }
        if (stretch.thread >= threads || stretch.points == 0) {
            error = "'" + std::string(part) + "': threads count from 0 to " + std::to_string(threads - 1) +
                    ", points from 1";
            return std::nullopt;
        }
        schedule.push_back(stretch);
        if (part.size() == rest.size()) return schedule;
        rest.remove_prefix(part.size() + 1);
    }
}

}  // namespace stress
