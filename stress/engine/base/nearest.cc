#include "engine/base/nearest.h"

#include <algorithm>
#include <numeric>

namespace stress {
namespace {

// How many bytes must be put in, left out or changed to make one word of the other (Levenshtein 1966).
std::size_t distance(const std::string &from, const std::string &to)
{
    std::vector<std::size_t> row(from.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t j = 0; j < to.size(); j++) {
        std::size_t diagonal = row[0];
        row[0] = j + 1;
        for (std::size_t i = 0; i < from.size(); i++) {
            const std::size_t changed = diagonal + (from[i] != to[j]);
            diagonal = row[i + 1];
            row[i + 1] = std::min(changed, std::min(row[i], row[i + 1]) + 1);
        }
    }
    return row.back();
}

constexpr std::size_t kWordMax = 100;

}  // namespace

std::string nearest_name(const std::string &word, const std::vector<std::string> &names)
{
    if (names.empty() || word.size() > kWordMax) return "";
    const auto nearer = [&word](const std::string &a, const std::string &b) {
        return distance(word, a) < distance(word, b);
    };
    const std::string &nearest = *std::min_element(names.begin(), names.end(), nearer);
    if (2 * distance(word, nearest) > nearest.size()) return "";
    return "; the nearest name is " + nearest;
}

std::string nearest_option(const std::string &message, const std::vector<std::string> &options)
{
    const std::size_t at = message.find(" --");
    if (at == std::string::npos || message.find("not expected") == std::string::npos) return "";
    const std::string word = message.substr(at + 1, message.find_first_of(" =", at + 1) - at - 1);
    return nearest_name(word, options);
}

} // namespace stress
