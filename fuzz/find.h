// What a target says of a find before it ends: one line that ci/fuzz reads the name of the broken rule from.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fuzz {

// "find: RULE: TEXT" on standard error, then SIGABRT. `rule` is of letters, digits and _.
[[noreturn]] inline void find(const char *rule, const std::string &text)
{
    std::fprintf(stderr, "find: %s: %s\n", rule, text.c_str());
    std::abort();
}

inline void must_hold(bool holds, const char *rule, const std::string &text)
{
    if (!holds) find(rule, text);
}

}  // namespace fuzz
