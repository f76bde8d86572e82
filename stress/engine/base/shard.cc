#include "engine/base/shard.h"

#include <charconv>

namespace stress {

std::string shard_parse(const std::string &text, Shard &shard)
{
    const char *end = text.data() + text.size();
    const auto [slash, bad] = std::from_chars(text.data(), end, shard.index);
    if (bad == std::errc() && slash != end && *slash == '/') {
        const auto [stopped, error] = std::from_chars(slash + 1, end, shard.count);
        if (error == std::errc() && stopped == end && shard.index >= 1 && shard.index <= shard.count) return "";
    }
    return "--shard: must be I/N, such as 2/4, with I from 1 to N, not '" + text + "'";
}

} // namespace stress
