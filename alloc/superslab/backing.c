/* backing.c: see backing.h. The figures and settings order nothing: relaxed everywhere. */
#include "superslab/backing.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "os/os.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

static _Atomic(enum huge_policy) huge_policy;
static _Atomic(size_t) collapsed;

void backing_set_huge_policy(enum huge_policy policy)
{
    atomic_store_explicit(&huge_policy, policy, memory_order_relaxed);
    if (policy != HUGE_OFF) os_purge_by_advice(true); /* fresh mappings would lack the advice */
}

enum huge_policy backing_huge_policy(void)
{
    return atomic_load_explicit(&huge_policy, memory_order_relaxed);
}

size_t backing_collapsed(void)
{
    return atomic_load_explicit(&collapsed, memory_order_relaxed);
}

/* --- huge pages ------------------------------------------------------------------------------------ */

/* superslab.seen_full */
enum { NOT_FULL, FULL_ONCE, TRIED };

/* A round looks at superslabs from this index on. Where one has used up what it may look at, the next continues behind it:
 * those that are full and not resident would use up each round otherwise. relaxed: an old
 * index only changes whose turn it is. */
static _Atomic(uint32_t) look_from;

struct look {
    uint32_t left; /* how many superslabs the round may look at yet */
    uint32_t from, next_from;
};

static void seen_full_set(struct superslab *superslab, uint8_t seen)
{
    if (atomic_load_explicit(&superslab->seen_full, memory_order_relaxed) != seen)
        atomic_store_explicit(&superslab->seen_full, seen, memory_order_relaxed);
}

/* Another thread may free a page meanwhile, and even release the superslab. The advice then does nothing, or concerns
 * memory whose content it does not change. */
static void visit_full(struct superslab *superslab, void *context)
{
    struct look *look = context;
    char *base = superslab_base(superslab);
    uint8_t seen = atomic_load_explicit(&superslab->seen_full, memory_order_relaxed);
    if (base == NULL || atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) != 0) {
        seen_full_set(superslab, NOT_FULL);
    } else if (seen == NOT_FULL) {
        seen_full_set(superslab, FULL_ONCE);
    } else if (seen == FULL_ONCE && superslab->index >= look->from && look->left > 0) {
        if (--look->left == 0) look->next_from = superslab->index + 1;
        if (os_resident_bytes(base, SUPERSLAB_BYTES) < SUPERSLAB_BYTES - SUPERSLAB_BYTES / 16) return;
        const int error = os_collapse(base, SUPERSLAB_BYTES);
        if (error == 0) atomic_fetch_add_explicit(&collapsed, 1, memory_order_relaxed);
        /* These two may pass: the system is busy with one of the pages, or the group of processes is at its limit. After
         * another error a further try would only make the system move memory about again. */
        if (error != EAGAIN && error != EBUSY) seen_full_set(superslab, TRIED);
    }
}

void backing_round(void)
{
    struct look look = {.left = HUGE_ROUND_SUPERSLABS, .from = atomic_load_explicit(&look_from, memory_order_relaxed)};
    pool_for_each(visit_full, &look);
    atomic_store_explicit(&look_from, look.next_from, memory_order_relaxed);
}

/* --- at start --------------------------------------------------------------------------------------- */

size_t backing_prewarm(size_t size_bytes)
{
    struct slab *claimed = NULL; /* whole superslabs, linked by their first pages' descriptors */
    size_t bytes = 0;
    while (bytes < size_bytes) {
        struct page_range range = pool_claim(SUPERSLAB_PAGES, 1, false);
        if (range.superslab == NULL) break;
        struct slab *first = &range.superslab->slabs[0];
        first->page_index = 0; /* superslab_of needs it */
        first->next = claimed;
        claimed = first;
        if (os_populate(superslab_base(range.superslab), SUPERSLAB_BYTES) != 0) break;
        bytes += SUPERSLAB_BYTES;
    }
    purge_keep_at_least(bytes / PAGE_BYTES);
    while (claimed != NULL) {
        struct superslab *superslab = superslab_of(claimed);
        claimed = claimed->next;
        pool_free(superslab, 0, SUPERSLAB_PAGES, 8);
    }
    return bytes;
}
