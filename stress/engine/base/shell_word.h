// A word as a shell reads it: for the commands that a report prints.
#pragma once

#include <string>

namespace stress {

// The word itself if it is plain, else in quotes.
std::string shell_word(const std::string &word);

} // namespace stress
