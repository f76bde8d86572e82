// The name that a user most likely meant.
#pragma once

#include <string>
#include <vector>

namespace stress {

// "; the nearest name is NAME" if so few bytes differ that it may be a slip of the hand, else nothing.
std::string nearest_name(const std::string &word, const std::vector<std::string> &names);

// The same for the first unknown option that CLI11's message names.
std::string nearest_option(const std::string &message, const std::vector<std::string> &options);

} // namespace stress
