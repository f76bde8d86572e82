/* stats.c: see stats.h. Reads only data that other threads may write meanwhile: the page map and the used counts. */
#include "control/stats.h"

#include "cache/cached.h"
#include "guard/guard.h"
#include "hakmem/hakmem.h"
#include "heap/huge.h"
#include "control/options.h"
#include "heap/own_inside.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "report/output.h"
#include "report/process.h"
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

void stats_get(struct hak_stats *out)
{
    *out = (struct hak_stats){.heap_count = owner_count(), .orphan_count = owner_orphan_count()};
    slab_for_each(count_slab, out);
    size_t cached = cached_bytes();
    out->small_cached_bytes = cached < out->small_bytes ? cached : out->small_bytes; /* other threads run meanwhile */
    out->small_bytes += profile_slot_bytes();
    struct pool_figures pool = pool_figures();
    struct huge_figures huge = huge_figures();
    size_t claimed_bytes = pool.claimed_pages * PAGE_BYTES;
    if (VALIDATE) claimed_bytes -= own_dead_bytes();
    out->reserved_bytes = pool.superslab_count * SUPERSLAB_BYTES - pool.missing_pages * PAGE_BYTES;
    out->reserved_bytes += huge.live_bytes + huge.cached_bytes;
    out->run_bytes = claimed_bytes > out->slab_bytes ? claimed_bytes - out->slab_bytes : 0;
    out->huge_count = huge.live_count;
    out->huge_bytes = huge.live_bytes;
    out->huge_cached_bytes = huge.cached_bytes;
    out->dirty_bytes = pool.dirty_pages * PAGE_BYTES;
}

static void print_amount(struct output *out, const char *name, uint64_t bytes, const char *more)
{
    char text[AMOUNT_BYTES];
    output_print(out, "hakmem: %-14s %13s%s\n", name, amount_text(text, bytes), more);
}

static void print_head(struct output *out)
{
    char name[PROCESS_NAME_BYTES], time[PROCESS_TIME_BYTES];
    uint64_t age_ms = process_age_ms();
    process_name(name);
    process_time(time);
    output_print(out, "hakmem: %s, process %d, libhakmem " HAKMEM_VERSION "%s, %s, age %llu.%llu s\n", name,
                 process_number(), VALIDATE ? " (debug-validation)" : "", time, (unsigned long long)age_ms / 1000,
                 (unsigned long long)age_ms / 100 % 10);
}

/* Of the heap as a whole, and of the process with all else that it has. */
static void print_whole(struct output *out, const struct hak_stats *stats)
{
    const size_t used_bytes = stats->small_bytes + stats->run_bytes + stats->huge_bytes;
    print_amount(out, "in use", used_bytes, "  in blocks that are live or cached");
    print_amount(out, "committed", limit_committed_bytes(), "  may be in memory");
    print_amount(out, "peak", limit_committed_peak_bytes(), "  the most that was committed at one time");
    const struct process_memory memory = process_memory();
    if (memory.resident_bytes == 0) return;
    print_amount(out, "resident", memory.resident_bytes, "  the whole process, by the kernel");
    print_amount(out, "resident, peak", memory.resident_peak_bytes, "");
}

/* Only what is set: a program that starts many others, as a shell does, prints each of these lines for each. */
static void print_option(struct output *out, enum option option, const char *name, uint64_t standard, const char *text)
{
    const unsigned long long value = option_value(option);
    if (value != standard) output_print(out, "hakmem: option %-16s %8llu  %s\n", name, value, text);
}

void stats_print(struct output *out)
{
    struct hak_stats stats;
    stats_get(&stats);
    print_head(out);
    print_whole(out, &stats);
    print_amount(out, "reserved", stats.reserved_bytes, "");
    print_amount(out, "slabs", stats.slab_bytes, "");
    print_amount(out, "small blocks", stats.small_bytes, "");
    print_amount(out, "small, cached", stats.small_cached_bytes, "");
    print_amount(out, "page runs", stats.run_bytes, "");
    print_amount(out, "huge blocks", stats.huge_bytes, "");
    print_amount(out, "huge, cached", stats.huge_cached_bytes, "");
    print_amount(out, "free, dirty", stats.dirty_bytes, "");
    output_print(out, "hakmem: %-14s %11zu, of them orphans %zu\n", "heaps", stats.heap_count, stats.orphan_count);
    if (sampling_is_on() && sampling_guard_rate() != 0) {
        struct guard_figures guard = guard_figures();
        output_print(out, "hakmem: %-14s %11llu blocks, %u of %u slots live\n", "sampled",
                     (unsigned long long)guard.sampled, guard.live, guard.slots);
    }
    if (limit_get() != SIZE_MAX) print_amount(out, "limit", limit_get(), "");
    if (limit_soft_get() != SIZE_MAX) print_amount(out, "limit, soft", limit_soft_get(), "");
#define X(name, standard, low, high, text) print_option(out, OPTION_##name, #name, standard, text);
    OPTIONS(X)
#undef X
    if (VALIDATE) failfast_settings_print(out);
}
