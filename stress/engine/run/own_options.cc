#include "engine/run/own_options.h"

#include "engine/base/cli_numbers.h"

namespace stress {

void check_blocks(const Options &common, std::uint64_t thread_blocks)
{
    constexpr std::uint64_t blocks_max = std::uint64_t{1} << 30;
    if (thread_blocks > blocks_max / common.threads)
        throw BadInput{"the threads would hold more than " + std::to_string(blocks_max) +
                       " blocks; ask for fewer chunks, slots or threads"};
}

bool Classic::take_count(const char *name, std::uint64_t low, std::uint64_t high, std::uint64_t &value)
{
    if (next_ == words_.size()) return false;
    const std::string &word = words_[next_++];
    if (!parse_number(word, value) || value < low || value > high)
        throw BadInput{std::string(name) + ": must be a whole number from " + std::to_string(low) + " to " +
                       std::to_string(high) + ", not '" + word + "'"};
    return true;
}

bool Classic::take_seconds(double &value)
{
    if (next_ == words_.size()) return false;
    const std::string &word = words_[next_++];
    if (!seconds_ok(word, false)) throw BadInput{"seconds: must be a number of seconds above 0, not '" + word + "'"};
    parse_number(word, value);
    return true;
}

} // namespace stress
