// What a target prints about a find before it ends: one line, from which ci/fuzz reads the name of the broken rule.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fuzz {

// Prints "find: RULE: TEXT" on standard error, then raises SIGABRT. `rule` has only letters, digits and _.
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
