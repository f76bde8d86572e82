// Which ops a checked scenario draws. Swarm: the seed picks weights and switches some kinds off, so that
// runs differ in more than the order of the same ops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/interp.h"
#include "engine/rng.h"

namespace stress {

struct Mix {
    std::uint32_t kind_weights[kKindCount];  // malloc is never switched off
    std::uint32_t realloc_percent;           // of the visits to a live block; the rest frees it
    bool strict;                             // aligned sizes that some mallocs get wrong; see mix.cc
};

Mix mix_swarm(Rng &rng, bool strict);

// Mostly malloc, one in sixteen something else. For scenarios whose subject is not the kind of op.
Mix mix_mostly_malloc(bool strict);

// A request for a block of min to max bytes; aligned kinds may round the size up.
Request mix_draw(const Mix &mix, Rng &rng, std::size_t min_bytes, std::size_t max_bytes);

}  // namespace stress
