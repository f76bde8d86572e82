/* stats.c: see stats.h. Reads only data that other threads may write meanwhile: the page map and the used counts. */
#include "heap/stats.h"

#include "base/hooks.h"
#include "cache/cached.h"
#include "cache/thread.h"
#include "guard/guard.h"
#include "guard/guard_sample.h"
#include "hakmem/hakmem.h"
#include "heap/huge.h"
#include "heap/options.h"
#include "heap/own_inside.h"
#include "profile/profile.h"
#include "report/settings.h"
#include "slab/owner.h"
#include "slab/slab.h"
#include "superslab/limit.h"
#include "superslab/pool.h"

static void count_slab(struct slab *slab, uint32_t class_index, void *context)
{
    struct hak_stats *stats = context;
    uint32_t used = atomic_load_explicit(&slab->used_count, memory_order_relaxed);
    stats->slab_bytes += (size_t)sizeclass_slab_pages(class_index) * PAGE_BYTES;
    stats->small_bytes += (size_t)used * sizeclass_bytes(class_index);
}

static void count_superslab(struct superslab *superslab, void *context)
{
    slab_for_each(superslab, count_slab, context);
}

void stats_get(struct hak_stats *out)
{
    *out = (struct hak_stats){.heap_count = owner_count(), .orphan_count = owner_orphan_count()};
    pool_for_each(count_superslab, out);
    size_t cached = cached_bytes();
    out->small_cached_bytes = cached < out->small_bytes ? cached : out->small_bytes; /* other threads run meanwhile */
    out->small_bytes += profile_slot_bytes();
    struct pool_figures pool = pool_figures();
    struct huge_figures huge = huge_figures();
    size_t claimed_bytes = pool.claimed_pages * PAGE_BYTES;
    if (VALIDATE) claimed_bytes -= own_dead_bytes();
    out->reserved_bytes = pool.superslab_count * SUPERSLAB_BYTES + huge.live_bytes + huge.cached_bytes;
    out->run_bytes = claimed_bytes > out->slab_bytes ? claimed_bytes - out->slab_bytes : 0;
    out->huge_count = huge.live_count;
    out->huge_bytes = huge.live_bytes;
    out->huge_cached_bytes = huge.cached_bytes;
    out->dirty_bytes = pool.dirty_pages * PAGE_BYTES;
}

void stats_print(FILE *stream)
{
    struct hak_stats stats;
    stats_get(&stats);
    fprintf(stream,
            "hakmem: reserved      %14zu bytes\n"
            "hakmem: slabs         %14zu bytes\n"
            "hakmem: small blocks  %14zu bytes\n"
            "hakmem: small, cached %14zu bytes\n"
            "hakmem: page runs     %14zu bytes\n"
            "hakmem: huge blocks   %14zu bytes\n"
            "hakmem: huge, cached  %14zu bytes\n"
            "hakmem: free, dirty   %14zu bytes\n"
            "hakmem: heaps         %14zu, of them orphans %zu\n",
            stats.reserved_bytes, stats.slab_bytes, stats.small_bytes, stats.small_cached_bytes, stats.run_bytes,
            stats.huge_bytes, stats.huge_cached_bytes, stats.dirty_bytes, stats.heap_count, stats.orphan_count);
    if (guard_sample_is_on() && guard_sample_rate_now() != 0) {
        struct guard_figures guard = guard_figures();
        fprintf(stream, "hakmem: sampled       %14llu blocks, %u of %u slots live\n", (unsigned long long)guard.sampled,
                guard.live, guard.slots);
    }
    if (limit_get() != SIZE_MAX) fprintf(stream, "hakmem: limit         %14zu bytes\n", limit_get());
    if (limit_soft_get() != SIZE_MAX) fprintf(stream, "hakmem: limit, soft   %14zu bytes\n", limit_soft_get());
#define X(name, standard, low, high, text) \
    fprintf(stream, "hakmem: option %-14s %8llu  %s\n", #name, (unsigned long long)option_value(OPTION_##name), text);
    OPTIONS(X)
#undef X
    if (VALIDATE) failfast_settings_print(stream);
    if (VALIDATE) hooks.stats_print(stream);
}
