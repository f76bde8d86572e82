// Which ops a checked scenario draws. Swarm testing: the seed picks weights and switches some kinds off, so that runs
// differ in more than the order of the same ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/rng.h"
#include "engine/op/op.h"

namespace stress {

struct Mix {
    // Weights of Malloc, Calloc, AlignedAlloc, PosixMemalign and Memalign. malloc is never switched off.
    static constexpr std::size_t kKinds = 5;
    std::uint32_t kind_weights[kKinds];
    std::uint32_t realloc_percent;  // share of the visits to a live block; the other visits free it
    bool strict;                    // also draw aligned sizes that some mallocs get wrong; see mix.cc
};

Mix mix_swarm(Rng &rng, bool strict);

// Switches each kind that no thread has on in one of them, so that a run has a case for each. Draws only where one is
// missing, from a stream of random numbers of its own.
void mix_complete(std::span<Mix> mixes, Rng &rng);

// malloc only, as unchecked runs and the classic benchmarks do.
Mix mix_malloc_only();

// An op that allocates a block of min to max bytes in the slot; aligned kinds may round the size up.
Op mix_allocate(const Mix &mix, Rng &rng, std::uint32_t slot, std::size_t min_bytes, std::size_t max_bytes);

// An op for a visit to a live block: free, or realloc to min to max bytes.
Op mix_visit_live(const Mix &mix, Rng &rng, std::uint32_t slot, std::size_t min_bytes, std::size_t max_bytes);

}  // namespace stress
