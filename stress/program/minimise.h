// Makes a failing program small by trying: fewer ops, fewer threads, simpler arguments. It does not know how a program
// is run; the caller says whether a candidate still fails.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace stress {

struct Minimise {
    std::function<bool(const Program &)> fails;       // in the same way as the original
    std::function<void(const Program &)> progress;    // called with each smaller program
    std::function<bool()> give_up;                    // time is over: keep the best so far
    // Whether to try first that long stretches are loops, before the whole is one. For costs, which phases of a program
    // make together.
    bool phases = false;
};

// `program` must fail. The result fails too, and no step below makes it smaller, unless give_up ended the search.
Program minimise(Program program, const Minimise &how);

// Removes [from, to) and keeps the bodies of repeats right.
void ops_remove(OpList &ops, std::size_t from, std::size_t to);

} // namespace stress
