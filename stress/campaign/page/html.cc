#include "campaign/page/html.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr const char *kReplacement = "\xEF\xBF\xBD";
constexpr const char *kNone = "<span class=\"none\">not measured</span>";

// Length of the UTF-8 character at `at`, or 0 if there is none.
std::size_t character_bytes(const std::string &text, std::size_t at)
{
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned lead = byte(at);
    if (lead < 0x80) return 1;
    const std::size_t count = lead >= 0xC2 && lead < 0xE0   ? 2
                              : lead >= 0xE0 && lead < 0xF0 ? 3
                              : lead >= 0xF0 && lead < 0xF5 ? 4
                                                            : 0;
    if (count == 0) return 0;
    for (std::size_t i = 1; i < count; ++i)
        if ((byte(at + i) & 0xC0) != 0x80) return 0;
    const unsigned second = byte(at + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool outside = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
    return overlong || outside ? 0 : count;
}

void escape_ascii(char c, std::string &escaped)
{
    switch (c) {
    case '&': escaped += "&amp;"; return;
    case '<': escaped += "&lt;"; return;
    case '>': escaped += "&gt;"; return;
    case '"': escaped += "&quot;"; return;
    case '\'': escaped += "&#39;"; return;
    case '\n':
    case '\t': escaped += c; return;
    default: break;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) escaped += kReplacement;
    else escaped += c;
}

}  // namespace

std::string html_escape(const std::string &text)
{
    std::string escaped;
    escaped.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t bytes = character_bytes(text, at);
        if (bytes == 1) escape_ascii(text[at], escaped);
        else if (bytes == 0) escaped += kReplacement;
        else escaped.append(text, at, bytes);
        at += bytes == 0 ? 1 : bytes;
    }
    return escaped;
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

std::string short_name(const std::string &allocator, std::size_t length_max)
{
    std::string name = allocator.substr(allocator.rfind('/') + 1);
    if (name.empty()) name = allocator;
    std::size_t characters = 0, at = 0;
    while (at < name.size() && characters + 1 < length_max) {
        const std::size_t bytes = character_bytes(name, at);
        at += bytes == 0 ? 1 : bytes;
        ++characters;
    }
    const std::size_t last = at < name.size() ? character_bytes(name, at) : 0;
    return at + (last == 0 ? 1 : last) < name.size() ? name.substr(0, at) + "…" : name;
}

}  // namespace stress
