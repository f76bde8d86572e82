// Text for an HTML page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stress {

// Safe between tags and inside quoted attributes, whatever the bytes are: the five special characters become entities;
// control characters and invalid UTF-8 become U+FFFD.
std::string html_escape(const std::string &text);

// Numbers for table cells; "not measured" for an empty optional.
std::string html_bytes(const std::optional<std::uint64_t> &bytes);
std::string html_count(const std::optional<std::uint64_t> &count);  // "12 345 678"
std::string html_rate(const std::optional<double> &per_second);
std::string html_seconds(const std::optional<double> &seconds);

// A command of a shell between tags. A line breaks at its blanks only, never behind the hyphens of "--seed", and an option
// stays with a short value.
std::string html_command(const std::string &command);

// "850 ns", "1.2 µs", "34 ms", "2.1 s".
std::string nanoseconds_text(double nanoseconds);

} // namespace stress
