// A failing program as a loop: fewer lines, for minimise().
#pragma once

#include <vector>

#include "program/program.h"

namespace stress {

// Programs of the form `repeat { a few ops }` that may fail in the same way, the most likely first: its last ops, the
// ops on its last blocks, one op of each kind, and pairs of those. Each is repeated at most `rounds_max` times, and
// fewer if its blocks would fill the memory.
std::vector<OpList, MappedAllocator<OpList>> fold_candidates(const OpList &ops, std::size_t rounds_max);

// Which slots the rounds of a folded segment use: every round those of its first ops, each round new ones, or each round
// the next ones after those of its first ops, so that ops behind the segment still find the blocks.
enum class FoldSlots { Same, Fresh, Next };

// The ops with [from, to) replaced by a repeat of the first `width` of them.
OpList fold_segment(const OpList &ops, std::size_t from, std::size_t to, std::size_t width, FoldSlots slots);

} // namespace stress
