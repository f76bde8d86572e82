#include "engine/base/markup.h"

namespace stress {
namespace {

constexpr const char *kReplacement = "\xEF\xBF\xBD";

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
    // U+FFFE and U+FFFF are no characters, and XML forbids them.
    const bool none = lead == 0xEF && second == 0xBF && byte(at + 2) >= 0xBE;
    return overlong || outside || none ? 0 : count;
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

} // namespace

std::string markup_escape(const std::string &text)
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

} // namespace stress
