/* owner.c: the table of owners and the map of orphans. See owner.h. */
#include "slab/owner.h"

#include <stdalign.h>

#include "base/config.h"
#include "base/sync_point.h"
#include "os/lock.h"
#include "os/meta.h"
#include "superslab/pagemap.h"

enum { WORD_BITS = 64, WORDS = HEAPS_MAX / WORD_BITS };

static_assert((uint64_t)HEAPS_MAX << TAG_OWNER_SHIFT <= UINT32_MAX, "ids fit the page map's tag");

typedef _Atomic(struct owner *) owner_cell;

/* The table of owners. It doubles under LOCK_HEAPS; those before it stay, for threads that still read them. */
enum { CELLS_FIRST = 512 };
static owner_cell cells_first[CELLS_FIRST];
static _Atomic(owner_cell *) owners = cells_first;
static uint32_t cells = CELLS_FIRST;
static _Atomic(uint32_t) count;
/* On lines apart from what every thread reads. `preferred` is a hint: relaxed everywhere. */
static alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) orphans[WORDS], preferred[WORDS];

static bool cells_double(void)
{
    owner_cell *old = atomic_load_explicit(&owners, memory_order_relaxed);
    owner_cell *more = meta_alloc(2 * (size_t)cells * sizeof *more);
    if (more == NULL) return false;
    for (uint32_t id = 1; id < cells; id++)
        atomic_init(&more[id], atomic_load_explicit(&old[id], memory_order_relaxed));
    /* release: publishes the cells. Pairs with the acquire in owner_with_id. */
    atomic_store_explicit(&owners, more, memory_order_release);
    cells *= 2;
    return true;
}

bool owner_register(struct owner *owner)
{
    lock_acquire(LOCK_HEAPS);
    uint32_t id = atomic_load_explicit(&count, memory_order_relaxed) + 1;
    bool fits = id < HEAPS_MAX && (id < cells || cells_double());
    if (fits) {
        owner->id = id;
        owner->tag = id << TAG_OWNER_SHIFT;
        owner_cell *all = atomic_load_explicit(&owners, memory_order_relaxed);
        /* relaxed: the count publishes the owner and its cell. */
        atomic_store_explicit(&all[id], owner, memory_order_relaxed);
        /* release: pairs with the acquire in owner_count, so that a thread finds all the owners that it counts, whole. */
        atomic_store_explicit(&count, id, memory_order_release);
    }
    lock_release(LOCK_HEAPS);
    return fits;
}

uint32_t owner_count(void)
{
    /* acquire: pairs with owner_register. */
    return atomic_load_explicit(&count, memory_order_acquire);
}

struct owner *owner_with_id(uint32_t id)
{
    if (id == 0 || id > owner_count()) return NULL;
    /* acquire: pairs with cells_double. A thread that has counted the owner finds a table with its cell. */
    owner_cell *all = atomic_load_explicit(&owners, memory_order_acquire);
    /* relaxed: the owner was counted. */
    return atomic_load_explicit(&all[id], memory_order_relaxed);
}

struct owner *owner_next(const struct owner *before)
{
    return owner_with_id(before != NULL ? before->id + 1 : 1);
}

static bool take(uint32_t id)
{
    uint64_t bit = 1ull << id % WORD_BITS;
    sync_point("owner_adopt");
    /* acquire: pairs with the release in owner_abandon, so that everything the last thread did to the owner and its
     * slabs comes before what this one does. */
    return (atomic_fetch_and_explicit(&orphans[id / WORD_BITS], ~bit, memory_order_acquire) & bit) != 0;
}

static struct owner *adopt_first(bool of_preferred)
{
    uint32_t words = owner_count() / WORD_BITS + 1;
    for (uint32_t word = 0; word < words; word++) {
        /* relaxed: take() decides whether the bit is still set. */
        uint64_t bits = atomic_load_explicit(&orphans[word], memory_order_relaxed);
        if (of_preferred && bits != 0) bits &= atomic_load_explicit(&preferred[word], memory_order_relaxed);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t id = word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
            if (take(id)) return owner_with_id(id);
        }
    }
    return NULL;
}

struct owner *owner_adopt(void)
{
    struct owner *owner = adopt_first(true);
    return owner != NULL ? owner : adopt_first(false);
}

void owner_prefer(const struct owner *owner, bool yes)
{
    const uint64_t bit = 1ull << owner->id % WORD_BITS;
    if (yes) atomic_fetch_or_explicit(&preferred[owner->id / WORD_BITS], bit, memory_order_relaxed);
    else atomic_fetch_and_explicit(&preferred[owner->id / WORD_BITS], ~bit, memory_order_relaxed);
}

bool owner_is_orphan(const struct owner *owner)
{
    /* seq_cst: see owner_abandon. */
    return (atomic_load_explicit(&orphans[owner->id / WORD_BITS], memory_order_seq_cst) >> owner->id % WORD_BITS & 1) !=
           0;
}

bool owner_adopt_this(struct owner *owner)
{
    return owner_is_orphan(owner) && take(owner->id);
}

bool owner_abandon(struct owner *owner)
{
    sync_point("owner_abandon");
    /* release: publishes the owner to the thread that adopts it. seq_cst here, in the load below, in remote_post's push
     * and in owner_is_orphan: either the poster sees the orphan's bit and drains, or this thread sees the poster's slab
     * pending. */
    atomic_fetch_or_explicit(&orphans[owner->id / WORD_BITS], 1ull << owner->id % WORD_BITS, memory_order_seq_cst);
    if (atomic_load_explicit(&owner->pending, memory_order_seq_cst) == NULL) return true;
    return !take(owner->id); /* if another thread took the owner, that one drains it */
}

void owner_leave(struct owner *owner)
{
    atomic_fetch_or_explicit(&orphans[owner->id / WORD_BITS], 1ull << owner->id % WORD_BITS, memory_order_relaxed);
}

uint32_t owner_orphan_count(void)
{
    uint32_t orphan_count = 0;
    for (uint32_t word = 0; word <= owner_count() / WORD_BITS; word++)
        orphan_count += (uint32_t)__builtin_popcountll(atomic_load_explicit(&orphans[word], memory_order_relaxed));
    return orphan_count;
}
