// Words of command lines, and times for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stress {

// The words as one line for a POSIX shell.
std::string words_quoted(const std::vector<std::string> &words);

// Rows as lines with aligned columns: the first `left_columns` to the left, the others to the right. Every row has as
// many cells as the first.
std::string table_text(const std::vector<std::vector<std::string>> &rows, std::size_t left_columns);

// "8h", "1.5d", "30m", "90s" in seconds; nothing if the text is no time, is not above 0, or is above a year.
std::optional<double> duration_parse(const std::string &text);

// "45.0 s", "12 min", "3 h", "3 h 20 min", "2 d 4 h".
std::string duration_text(double seconds);

// "2026-03-01 14:05 UTC". Does not read the time zone files, as libc would.
std::string utc_text(std::uint64_t unix_seconds);

}  // namespace stress
