/* bound.c: see bound.h. */
#include "heap/bound.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/policy.h"
#include "base/sizeclass.h"
#include "cache/credits.h"
#include "cache/tcache.h"
#include "cache/thread.h"
#include "cache/visit.h"
#include "hakmem/hakmem.h"
#include "heap/heap.h"
#include "heap/huge.h"
#include "heap/own.h"
#include "os/call.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/pool_make.h"
#include "superslab/purge.h"
#include "superslab/tight.h"

/* --- the callback ------------------------------------------------------------------------------------ */

static bool (*callback)(size_t wanted_bytes, void *context); /* these two under LOCK_BOUND */
static void *callback_context;
static HAK_TLS bool is_asking;

void hak_limit_callback(bool (*new_callback)(size_t wanted_bytes, void *context), void *context)
{
    lock_acquire(LOCK_BOUND);
    callback = new_callback;
    callback_context = context;
    lock_release(LOCK_BOUND);
}

/* The function that it calls is the program's. */
HAK_ALIGNS_STACK bool bound_ask(size_t wanted_bytes)
{
    if (HAK_MINE(is_asking)) return false;
    lock_acquire(LOCK_BOUND);
    bool (*function)(size_t, void *) = callback;
    void *context = callback_context;
    lock_release(LOCK_BOUND);
    if (function == NULL) return false;
    int saved = errno;
    HAK_MINE(is_asking) = true;
    bool again = function(wanted_bytes, context);
    HAK_MINE(is_asking) = false;
    errno = saved;
    return again;
}

/* --- room ------------------------------------------------------------------------------------------------ */

enum {
    SHARE_LOG2 = 8,    /* caches are emptied again when this part of the heap may have come to them */
    TRIES_MAX = 1024,  /* this number of failures later they are in any case */
    LOOK_TRIES = 16,   /* each 16th failure looks into the bins */
    DRAIN_BYTES = 4096 /* what other threads free at a time: a guess */
};

/* What had come to caches, as far as it is counted, when they were emptied last: to all, and to the bins of this thread. They
 * order nothing: relaxed. */
static _Atomic(uint64_t) cached_mark;
static HAK_TLS uint64_t binned_mark;
static _Atomic(uint32_t) tries = TRIES_MAX;

static uint64_t cached_ever_bytes(void)
{
    uint64_t bytes = 0;
    for (struct owner *owner = NULL; (owner = owner_next(owner)) != NULL;) {
        bytes += CREDIT_BYTES * atomic_load_explicit(&owner->events[OWNER_EVENT_parks], memory_order_relaxed);
        bytes += DRAIN_BYTES * atomic_load_explicit(&owner->events[OWNER_EVENT_drains], memory_order_relaxed);
    }
    return bytes;
}

/* Frees to the calling thread's bins since each was parked last. */
static uint64_t binned_bytes(void)
{
    struct tcache *self = tcache_self();
    uint64_t bytes = 0;
    tcache_busy_begin(self); /* a visitor may change what is paid */
    for (uint32_t class_index = 1; self->heap != NULL && class_index < CLASS_COUNT; class_index++) {
        uint32_t credit = heap_credit_now(self->heap, class_index), left = self->credits[class_index];
        if (credit > left) bytes += (uint64_t)(credit - left) * sizeclass_bytes(class_index);
    }
    tcache_busy_end(self);
    return bytes;
}

static bool is_worth_while(void)
{
    uint64_t least = limit_committed_bytes() >> SHARE_LOG2;
    if (least < CREDIT_BYTES) least = CREDIT_BYTES;
    uint32_t tried = atomic_fetch_add_explicit(&tries, 1, memory_order_relaxed);
    uint64_t cached = cached_ever_bytes();
    bool is_due = tried >= TRIES_MAX || thread_any_warm() ||
                  cached >= atomic_load_explicit(&cached_mark, memory_order_relaxed) + least;
    if (!is_due && tried % LOOK_TRIES != 0) return false;
    uint64_t binned = binned_bytes(); /* walks all classes */
    if (!is_due && binned >= HAK_MINE(binned_mark) && binned < HAK_MINE(binned_mark) + least) return false;
    atomic_store_explicit(&cached_mark, cached, memory_order_relaxed);
    atomic_store_explicit(&tries, 0, memory_order_relaxed);
    HAK_MINE(binned_mark) = binned;
    return true;
}

/* Whether the system would serve the block if it got back all that the heap can give. */
static bool could_be_had(size_t wanted_bytes)
{
    const struct pool_figures pool = pool_figures();
    size_t most_bytes = pool.superslab_count * SUPERSLAB_BYTES + huge_figures().cached_bytes;
    most_bytes -= pool.missing_pages * PAGE_BYTES;
    if (wanted_bytes <= most_bytes) return true;
    size_t rest_bytes = round_up(wanted_bytes - most_bytes, PAGE_BYTES);
    void *rest = os->reserve(NULL, rest_bytes, PAGE_BYTES);
    if (rest == NULL) return false;
    /* Above the page map is no use: pagemap_reserve gives it back. */
    bool is_had = (uintptr_t)rest >> HAK_ADDRESS_BITS == 0 && os->commit(rest, rest_bytes) == 0;
    os->release(rest, rest_bytes);
    return is_had;
}

/* Trims would help neither limit: they give memory back, and no pages of the heap or address space. */
static void empty_caches(void)
{
    struct tcache *self = tcache_self();
    visit_all_caches();
    own_purge_all();
    if (self->heap != NULL) tcache_flush(self);
    thread_flush_orphans();
}

/* What the pool or the system is asked for. */
static size_t pages_bytes(size_t size_bytes)
{
    if (size_bytes > SMALL_BYTES_MAX) return round_up(size_bytes, PAGE_BYTES);
    return (size_t)sizeclass_slab_pages(sizeclass_of(size_bytes)) * PAGE_BYTES;
}

bool bound_make_room(size_t size_bytes)
{
    if (size_bytes > PTRDIFF_MAX || !thread_process_start()) return false;
    size_t wanted_bytes = pages_bytes(size_bytes);
    if (wanted_bytes > limit_get()) return false;
    bool by_limit = !limit_fits(wanted_bytes);
    if (!by_limit && !could_be_had(wanted_bytes)) return false;
    bool is_more = huge_any_cached() && huge_purge_all() > 0;
    if (is_worth_while()) {
        empty_caches();
        is_more = true;
    }
    if (!by_limit && (is_more || purge_dirty_pages() != 0)) {
        if (wanted_bytes > RUN_BYTES_MAX) pool_make_room();
        else pool_purge_all(); /* an empty superslab serves the block */
    }
    /* Another thread may be purging the pages that would do. */
    return is_more || !by_limit || purge_dirty_pages() != 0;
}

void *bound_refill(struct tcache *tcache, uint32_t class_index)
{
    if (class_index == CLASS_EMPTY) class_index = 1;
    size_t block_bytes = sizeclass_bytes(class_index);
    void *block = NULL;
    do {
        if (bound_make_room(block_bytes)) block = tcache_refill(tcache, class_index);
        if (block != NULL) return block;
        if (!bound_ask(block_bytes)) break;
        block = tcache_refill(tcache, class_index); /* first, since a bin may have what the program has freed */
    } while (block == NULL);
    if (block == NULL) errno = ENOMEM;
    return block;
}

/* --- locked memory ------------------------------------------------------------------------------------ */

/* Whether there is a limit, and one within which blocks that are mappings of their own, above 32 KiB, are not too many. */
static bool is_lock_limited(void)
{
    struct rlimit limit;
    if (call_getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
    const uint64_t mappings_max = pagemap_is_window() ? TIGHT_WINDOW_MAPPINGS_MAX : TIGHT_MAPPINGS_MAX;
    return limit.rlim_cur / mappings_max <= SMALL_BYTES_MAX && !call_has_capability(CALL_CAP_IPC_LOCK);
}

int hak_private_lock_all(int flags)
{
    if (!OWN_CALLS) return 0; /* sanitizers lock nothing either: their shadow takes terabytes */
    const bool is_limited = is_lock_limited(), was_frugal = pool_be_frugal(is_limited);
    meta_be_frugal(is_limited);
    if (is_limited) heap_purge_all();
    if (is_limited) pagemap_trim();
    const int error = -call_mlockall(flags);
    /* If it fails, what the last one has asked for stays. */
    const bool stays = error != 0 ? was_frugal : is_limited && (flags & MCL_FUTURE) != 0;
    pool_be_frugal(stays);
    meta_be_frugal(stays);
    return error;
}
