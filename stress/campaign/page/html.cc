#include "campaign/page/html.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "engine/base/markup.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr const char *kNone = "<span class=\"none\">not measured</span>";
constexpr std::size_t kTogetherMax = 36; // characters that fit into a box on a phone

// The words of a command with the blanks within quotes.
std::vector<std::string> words_of(const std::string &command)
{
    std::vector<std::string> words(1);
    char quote = 0;
    for (const char c : command) {
        if (quote == 0 && c == ' ') {
            words.emplace_back();
            continue;
        }
        if (quote == 0 && (c == '\'' || c == '"')) quote = c;
        else if (c == quote) quote = 0;
        words.back() += c;
    }
    return words;
}

}  // namespace

std::string html_escape(const std::string &text)
{
    return markup_escape(text);
}

std::string html_command(const std::string &command)
{
    const std::vector<std::string> words = words_of(command);
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string together = words[i];
        if (together.substr(0, 1) == "-" && i + 1 < words.size() && words[i + 1].substr(0, 1) != "-" &&
            together.size() + words[i + 1].size() < kTogetherMax)
            together += " " + words[++i];
        text += fmt::format("{}<span>{}</span>", text.empty() ? "" : " ", html_escape(together));
    }
    return text;
}

std::string html_bytes(const std::optional<std::uint64_t> &bytes)
{
    return bytes.has_value() ? format_bytes(*bytes) : kNone;
}

std::string html_count(const std::optional<std::uint64_t> &count)
{
    if (!count.has_value()) return kNone;
    std::string digits = std::to_string(*count), text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += "\u202F";  // a narrow no-break space
        text += digits[i];
    }
    return text;
}

std::string html_rate(const std::optional<double> &per_second)
{
    return per_second.has_value() ? format_rate(*per_second) : kNone;
}

std::string html_seconds(const std::optional<double> &seconds)
{
    return seconds.has_value() ? fmt::format("{:.2f} s", *seconds) : kNone;
}

std::string nanoseconds_text(double nanoseconds)
{
    constexpr const char *units[] = {"ns", "µs", "ms", "s"};
    std::size_t unit = 0;
    while (nanoseconds >= 999.5 && unit + 1 < std::size(units)) {
        nanoseconds /= 1000;
        ++unit;
    }
    const bool whole = unit == 0 || nanoseconds >= 9.95 || std::fabs(nanoseconds - std::round(nanoseconds)) < 0.05;
    return whole ? fmt::format("{:.0f} {}", nanoseconds, units[unit])
                 : fmt::format("{:.1f} {}", nanoseconds, units[unit]);
}

}  // namespace stress
