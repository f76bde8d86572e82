#include "campaign/command_words.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <locale>
#include <sstream>

#include "engine/base/shell_word.h"

namespace stress {
namespace {

std::string two_units(std::uint64_t large, const char *large_unit, std::uint64_t small, const char *small_unit)
{
    std::string text = std::to_string(large);
    text.append(" ").append(large_unit);
    if (small != 0) text.append(" ").append(std::to_string(small)).append(" ").append(small_unit);
    return text;
}

}  // namespace

std::string words_quoted(const std::vector<std::string> &words)
{
    std::string line;
    for (const std::string &word : words) {
        if (!line.empty()) line += ' ';
        line += shell_word(word);
    }
    return line;
}

std::string table_text(const std::vector<std::vector<std::string>> &rows, std::size_t left_columns)
{
    std::vector<std::size_t> widths(rows[0].size(), 0);
    // In characters, not bytes.
    const auto width = [](const std::string &cell) {
        return static_cast<std::size_t>(std::count_if(
            cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
    };
    for (const auto &row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    std::string text;
    for (const auto &row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string blanks(widths[i] - width(row[i]), ' ');
            line += (i < left_columns ? row[i] + blanks : blanks + row[i]) + "  ";
        }
        line.resize(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::optional<double> duration_parse(const std::string &text)
{
    if (text.empty()) return std::nullopt;
    const std::string number = text.substr(0, text.size() - 1);
    double value = 0;
    std::istringstream words(number);  // not every C++ library has from_chars for these
    words.imbue(std::locale::classic());
    const bool is_plain = number.find_first_not_of("0123456789.") == std::string::npos;
    if (!is_plain || !(words >> value) || words.peek() != std::istringstream::traits_type::eof()) return std::nullopt;
    switch (text.back()) {
    case 's': break;
    case 'm': value *= 60; break;
    case 'h': value *= 3600; break;
    case 'd': value *= 86400; break;
    default: return std::nullopt;
    }
    constexpr double year = 366 * 86400.0;
    return value > 0 && value <= year ? std::optional<double>(value) : std::nullopt;
}

std::string duration_text(double seconds)
{
    if (!(seconds >= 0)) seconds = 0;
    if (seconds < 59.95) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f s", seconds);
        return text;
    }
    const auto minutes = static_cast<std::uint64_t>(std::llround(std::fmin(seconds, 1e15) / 60));
    if (minutes < 60) return std::to_string(minutes) + " min";
    if (minutes < 48 * 60) return two_units(minutes / 60, "h", minutes % 60, "min");
    return two_units(minutes / 1440, "d", minutes % 1440 / 60, "h");
}

std::string utc_text(std::uint64_t unix_seconds)
{
    using namespace std::chrono;
    const sys_seconds time{seconds(static_cast<std::int64_t>(unix_seconds % 253402300800))};  // below year 10000
    const sys_days day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(time - day);
    char text[48];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d UTC", int(date.year()), unsigned(date.month()),
                  unsigned(date.day()), int(clock.hours().count()), int(clock.minutes().count()));
    return text;
}

}  // namespace stress
