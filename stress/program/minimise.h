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
};

// `program` must fail. The result fails too, and no step below makes it smaller, unless give_up ended the search.
Program minimise(Program program, const Minimise &how);

// Removes [from, to) and keeps the bodies of repeats right.
void ops_remove(OpList &ops, std::size_t from, std::size_t to);

// Programs of the form `repeat { a few ops }` that may fail in the same way, the most likely first: its last ops, the
// ops on its last blocks, one op of each kind, and pairs of those. Each is repeated at most `rounds_max` times, and
// fewer if its blocks would fill the memory.
std::vector<OpList, MappedAllocator<OpList>> fold_candidates(const OpList &ops, std::size_t rounds_max);

// The ops with [from, to) replaced by a repeat of the first `width` of them. `fresh`: each round uses new slots;
// otherwise every round uses the same slots.
OpList fold_segment(const OpList &ops, std::size_t from, std::size_t to, std::size_t width, bool fresh);

}  // namespace stress
