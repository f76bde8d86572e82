// Makes a failing program small: fewer ops, fewer threads, simpler arguments, by trying. It knows nothing of how a
// program is run; the caller says whether one still fails.
#pragma once

#include <functional>
#include <vector>

#include "program/program.h"

namespace stress {

struct Minimise {
    std::function<bool(const Program &)> fails;       // in the same way as the first
    std::function<void(const Program &)> progress;    // told of each smaller one
    std::function<bool()> give_up;                    // time is over: keep what there is
};

// `program` fails. What comes back fails too, and none of the steps below makes it smaller, unless give_up said so.
Program minimise(Program program, const Minimise &how);

// Takes [from, to) out and keeps the bodies of repeats right.
void ops_remove(OpList &ops, std::size_t from, std::size_t to);

// Programs of the form `repeat { a few ops }` that may fail as this one does, the most likely first: its last ops,
// what was done to its last blocks, one op of each kind, and pairs of those. Each is repeated at most `rounds_max`
// times, and fewer where its blocks would fill the memory.
std::vector<OpList, MappedAllocator<OpList>> fold_candidates(const OpList &ops, std::size_t rounds_max);

// The ops with [from, to) replaced by a repeat of the first `width` of them. `fresh`: on slots of their own, stepping
// on in each round; otherwise again and again on their slots.
OpList fold_segment(const OpList &ops, std::size_t from, std::size_t to, std::size_t width, bool fresh);

}  // namespace stress
