// Changes to an OpInput that keep it a sequence of operations. They find in seconds what a fuzzer's changes of bytes
// find in hours. The given generator draws everything: one seed gives one result.
#pragma once

#include "engine/base/rng.h"
#include "fuzz/op_input.h"

namespace fuzz {

using stress::Rng;

// X(name): one kind of change.
#define FUZZ_MUTATIONS(X)                                                         \
    X(Insert)         /* adds an op, on a slot that is used nearby */                     \
    X(Remove)         /* removes an op, or a run of them */                               \
    X(Duplicate)      /* copies a run of ops, behind itself or elsewhere */            \
    X(Swap)           /* swaps two ops */                                                   \
    X(Size)           /* sets a boundary size, or one near it */                            \
    X(SizeStep)       /* changes the size a little, doubles it or halves it */          \
    X(Slot)           /* moves an op to a slot that is used nearby */                       \
    X(Kind)           /* changes the kind of an op */                                       \
    X(Pair)           /* adds a free for a block that has none */                           \
    X(Align)          /* changes the argument: the alignment, the count, the way to end */ \
    X(Burst)          /* adds several blocks of one size, then their frees */              \
    X(Alike)          /* copies one op's size and argument to the ops around it */         \
    X(Thread)         /* moves an op, or a run, to another thread */                      \
    X(StopSet)        /* makes an op stop, mostly early, while a few ops begin */        \
    X(StopClear)      /* removes a stop */                                             \
    X(StopMove)       /* makes a stop a little earlier, later, shorter or longer */     \
    X(StopsAll)       /* makes every op of one thread stop, in a run of ops */          \
    X(Meet)           /* a thread stops, mostly at its end, while another frees what it made */

enum class Mutation {
#define X(name) name,
    FUZZ_MUTATIONS(X)
#undef X
};

#define X(name) +1
inline constexpr std::size_t kMutationCount = 0 FUZZ_MUTATIONS(X);
#undef X

// False: nothing here can be changed in this way (no ops, one thread, no stops), or there is no room. The result is
// normal.
bool mutate_as(Mutation mutation, OpInput &input, const OpShape &shape, Rng &rng);

// Makes one to a few changes. The result has at least one op, and at most ops_max.
void mutate(OpInput &input, const OpShape &shape, std::size_t ops_max, Rng &rng);

// Mixes ops of both, with their stops, in order.
OpInput cross_over(const OpInput &a, const OpInput &b, const OpShape &shape, std::size_t ops_max, Rng &rng);

}  // namespace fuzz
