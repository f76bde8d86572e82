// A failing program as a loop: fewer lines, for minimise().
#pragma once

#include <vector>

#include "program/program.h"

namespace stress {

// Programs of the form `repeat { a few ops }` that may fail in the same way, the most likely first: its last ops, the
// ops on its last blocks, one op of each kind, and pairs of those. Each is repeated at most `rounds_max` times, and
// fewer if its blocks would fill the memory.
std::vector<OpList, MappedAllocator<OpList>> fold_candidates(const OpList &ops, std::size_t rounds_max);

// The ops with [from, to) replaced by a repeat of the first `width` of them. `fresh`: each round uses new slots;
// otherwise every round uses the same slots.
OpList fold_segment(const OpList &ops, std::size_t from, std::size_t to, std::size_t width, bool fresh);

}  // namespace stress
