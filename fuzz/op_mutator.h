// Changes to an OpInput that keep it a sequence of operations: what a fuzzer's changes of bytes find in hours, these
// find in seconds. Everything is drawn from the generator that is given: one seed gives one result.
#pragma once

#include "engine/base/rng.h"
#include "fuzz/op_input.h"

namespace fuzz {

using stress::Rng;

// X(name): what one change does.
#define FUZZ_MUTATIONS(X)                                                       \
    X(Insert)         /* an op, on a slot that is used nearby */                        \
    X(Remove)         /* an op, or a run of them */                                     \
    X(Duplicate)      /* a run of ops, behind itself or elsewhere */                 \
    X(Swap)           /* two ops */                                                       \
    X(Size)           /* a boundary size, or one near it */                               \
    X(SizeStep)       /* the size plus or minus a little, doubled or halved */        \
    X(Slot)           /* a slot that is used nearby */                                    \
    X(Kind)           /* another kind of op */                                            \
    X(Pair)           /* a free for a block that has none */                              \
    X(Align)          /* the alignment, the count, the way to end: the argument */       \
    X(Burst)          /* several blocks of one size, and then their frees */             \
    X(Alike)          /* one op's size and argument for those around it as well */       \
    X(Thread)         /* an op, or a run, goes to another thread */                     \
    X(StopSet)        /* an op stops: early mostly, and while a few ops begin */       \
    X(StopClear)      /* one that stops does not */                                  \
    X(StopMove)       /* a little earlier or later, for a little shorter or longer */ \
    X(StopsAll)       /* every op that one thread has in a run of ops stops */        \
    X(Meet)           /* a thread stops, at its end mostly, while another frees what it made */

enum class Mutation {
#define X(name) name,
    FUZZ_MUTATIONS(X)
#undef X
};

#define X(name) +1
inline constexpr std::size_t kMutationCount = 0 FUZZ_MUTATIONS(X);
#undef X

// False: there is nothing here to change in this way (no ops, one thread, no stops), or no room. The result is
// normal.
bool mutate_as(Mutation mutation, OpInput &input, const OpShape &shape, Rng &rng);

// One to a few changes; afterwards there is an op at least, and no more than ops_max.
void mutate(OpInput &input, const OpShape &shape, std::size_t ops_max, Rng &rng);

// Ops of both, with their stops, in order.
OpInput cross_over(const OpInput &a, const OpInput &b, const OpShape &shape, std::size_t ops_max, Rng &rng);

}  // namespace fuzz
