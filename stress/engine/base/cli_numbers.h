// Numbers and names on the command line, for CLI11. Refuses text that is not a whole number in range, and names the range.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <locale>
#include <sstream>
#include <string>
#include <type_traits>

namespace stress {

template <typename T> bool parse_number(const std::string &text, T &value)
{
    if constexpr (std::is_floating_point_v<T>) { // not every C++ library has from_chars for these
        std::istringstream words(text);
        words.imbue(std::locale::classic());
        return words >> std::noskipws >> value && words.peek() == std::istringstream::traits_type::eof();
    } else {
        const char *end = text.data() + text.size();
        const auto [stopped, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stopped == end;
    }
}

inline bool seconds_ok(const std::string &text, bool zero_allowed)
{
    double value = 0;
    return parse_number(text, value) && (zero_allowed ? value >= 0 : value > 0) && value <= 1e7;
}

inline CLI::Validator seconds_number(bool zero_allowed)
{
    return CLI::Validator(
        [zero_allowed](std::string &text) {
            if (seconds_ok(text, zero_allowed)) return std::string();
            return "must be a number of seconds " + std::string(zero_allowed ? "of 0 or more" : "above 0") + ", not '" +
                   text + "'";
        },
        "SECONDS");
}

// For names, which a script may take from a variable that is not set.
inline CLI::Validator not_empty()
{
    return CLI::Validator(
        [](std::string &text) {
            return text.empty() ? "is empty: give a name, or leave the option out" : std::string();
        },
        "");
}

inline CLI::Validator whole_number(std::uint64_t low, std::uint64_t high)
{
    return CLI::Validator(
        [low, high](std::string &text) {
            std::uint64_t value = 0;
            if (parse_number(text, value) && value >= low && value <= high) return std::string();
            return "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", not '" +
                   text + "'";
        },
        "N");
}

} // namespace stress
