/* quarantine.c: see quarantine.h. Each thread has a ring in metadata memory. A thread that ends leaves its ring to a later
 * thread, with the blocks that wait in it. */
#include "debug/quarantine.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "debug/fault/sealed.h"
#include "heap/heap.h"
#include "heap/own.h"
#include "os/call.h"
#include "os/meta.h"
#include "os/sanitizer.h"
#include "report/failfast.h"
#include "report/settings.h"

/* A waiting block, with the frame that it had when it came, since the program may have overwritten that. */
struct entry {
    _Atomic(char *) start;
    char *user;
    struct frame_word word;
    uint32_t bytes;
};

struct ring {
    struct entry entries[QUARANTINE_BLOCKS_MAX];
    _Atomic(uint32_t) begin, end; /* the entries that wait; both wrap. Each changes by one store (step) */
    size_t bytes;
    size_t put_bytes; /* bytes put since the thread took the ring */
    bool is_closed; /* the process ends, and another thread has taken blocks out */
    _Atomic(uint64_t) thread; /* who has it: see thread_id; 0: free */
    struct ring *next; /* in the list of all rings; never changes */
};

static_assert((QUARANTINE_BLOCKS_MAX & (QUARANTINE_BLOCKS_MAX - 1)) == 0, "begin and end may wrap");

static _Atomic(struct ring *) rings;
static HAK_TLS struct ring *mine;

/* --- a ring ------------------------------------------------------------------------------------------------------ */

static struct entry *entry_at(struct ring *ring, uint32_t index)
{
    return &ring->entries[index % QUARANTINE_BLOCKS_MAX];
}

/* relaxed, as for every member that the ring's thread changes and another thread's report may read: such a report is a
 * guess. */
static uint32_t place_of(const _Atomic(uint32_t) *place)
{
    return atomic_load_explicit(place, memory_order_relaxed);
}

static void step(_Atomic(uint32_t) *place)
{
    atomic_store_explicit(place, place_of(place) + 1, memory_order_relaxed);
}

static uint32_t waiting(const struct ring *ring)
{
    return place_of(&ring->end) - place_of(&ring->begin);
}

static char *start_of(const struct entry *entry)
{
    return atomic_load_explicit(&entry->start, memory_order_relaxed);
}

/* What the end of the process leaves in an entry that it has taken from a thread that still runs. Such a thread puts no more
 * blocks into its ring, so the entry stays as it is. */
static char was_taken;

/* Takes the block out of an entry, unless the other side has done so. acquire: pairs with the release in quarantine_put. */
static char *entry_take(struct entry *entry)
{
    return atomic_exchange_explicit(&entry->start, &was_taken, memory_order_acquire);
}

/* --- blocks that leave ------------------------------------------------------------------------------------------- */

static bool first_changed(const struct framed *framed, ptrdiff_t *offset)
{
    if (frame_changed_before(framed, offset)) return true;
    size_t at = frame_first_other(framed->user, framed->word.size_bytes, FRAME_JUNK);
    *offset = (ptrdiff_t)at;
    return at < framed->word.size_bytes || frame_changed_after(framed, offset);
}

/* Reports a block that was written to. If the process survives, restores the frame and the junk, so that it is reported
 * only once. */
static HAK_COLD void tell(const struct framed *framed, ptrdiff_t offset)
{
    frame_refuse_bytes(FAILFAST_write_after_free, framed, offset, frame_changed_count(framed, offset, true));
    frame_write(framed);
    memset(framed->user, FRAME_JUNK, framed->word.size_bytes);
    if (ASAN) sanitizer_close(framed->start, framed->bytes);
}

static void check(const struct entry *entry, char *start)
{
    struct framed framed = {start, entry->bytes, entry->user, entry->word};
    ptrdiff_t offset;
    if (!first_changed(&framed, &offset)) return;
    const char *call = failfast_call_set("quarantine");
    tell(&framed, offset);
    failfast_call_set(call);
}

/* Takes the oldest entry out. It leaves the ring before anything else, so that a report or a forked child does not find
 * it twice. */
static void leave(struct ring *ring)
{
    struct entry *taken = entry_at(ring, place_of(&ring->begin)), entry = *taken;
    char *start = entry_take(taken);
    ring->bytes -= entry.bytes;
    step(&ring->begin);
    if (start == &was_taken) {
        ring->is_closed = true;
        return;
    }
    check(&entry, start);
    heap_free(start);
}

static bool empty(struct ring *ring)
{
    bool any = waiting(ring) > 0;
    while (waiting(ring) > 0) leave(ring);
    ring->bytes = 0; /* as waiting_bytes would say */
    return any;
}

static void sweep(struct ring *ring)
{
    for (uint32_t i = place_of(&ring->begin); i != place_of(&ring->end); i++)
        if (start_of(entry_at(ring, i)) != &was_taken) check(entry_at(ring, i), start_of(entry_at(ring, i)));
}

/* The same for the ring of a thread that still runs. Each block leaves the ring first. */
static void sweep_taking(struct ring *ring)
{
    uint32_t begin = place_of(&ring->begin), count = place_of(&ring->end) - begin;
    for (uint32_t i = 0; i < count && i < QUARANTINE_BLOCKS_MAX; i++) {
        struct entry *entry = entry_at(ring, begin + i);
        char *start = start_of(entry) == NULL ? NULL : entry_take(entry);
        if (start != NULL && start != &was_taken) check(entry, start);
    }
}

void quarantine_sweep(void)
{
    if (HAK_MINE(mine) != NULL && failfast_level() >= LEVEL_TRACES) sweep(HAK_MINE(mine));
}

bool quarantine_holds(const char *start)
{
    if (sealed_holds(start)) return true;
    /* acquire: pairs with the release in ring_take. */
    for (struct ring *ring = atomic_load_explicit(&rings, memory_order_acquire); ring != NULL; ring = ring->next) {
        uint32_t begin = place_of(&ring->begin), count = place_of(&ring->end) - begin;
        for (uint32_t i = 0; i < count && i < QUARANTINE_BLOCKS_MAX; i++)
            if (start_of(entry_at(ring, begin + i)) == start) return true;
    }
    return false;
}

/* --- the rings of threads ------------------------------------------------------------------------------------ */

static void ring_give_up(struct ring *ring)
{
    /* release: pairs with the acquire in ring_claim, which then finds what the ring holds. */
    atomic_store_explicit(&ring->thread, 0, memory_order_release);
}

/* Whether one more block may wait, of this many bytes. */
static bool has_room(const struct ring *ring, size_t bytes, size_t limit)
{
    size_t count = waiting(ring);
    return count == 0 || (count < limit / QUARANTINE_MEAN_BYTES && ring->bytes + bytes <= limit);
}

void quarantine_thread_ends(void)
{
    struct ring *ring = HAK_MINE(mine);
    if (ring == NULL) return;
    while (!has_room(ring, 0, QUARANTINE_BYTES_MIN)) leave(ring); /* each waiting block keeps a page */
    sweep(ring);
    HAK_MINE(mine) = NULL;
    ring_give_up(ring);
}

/* How many times the process is a child of fork. Changes while it has one thread. */
static uint32_t generation;

/* The kernel's id of the thread, and above it the generation: in a child all rings but its own thread's are free, and it need
 * not write to them, which would copy a page of each. */
static uint64_t thread_id(void)
{
    return (uint64_t)generation << 32 | (uint32_t)call_gettid();
}

/* Each ring shows what its thread did up to some moment (cache/fork.h), so at worst the block that was just leaving is
 * lost. */
void quarantine_after_fork(void)
{
    sealed_after_fork();
    generation++;
    if (HAK_MINE(mine) != NULL) atomic_store_explicit(&HAK_MINE(mine)->thread, thread_id(), memory_order_relaxed);
}

static bool is_gone(uint64_t thread)
{
    return thread >> 32 != generation || call_tgkill(call_getpid(), (int)(uint32_t)thread, 0) == -ESRCH;
}

/* Takes a ring that is free, or whose thread has ended without giving it up: a thread whose first free comes in its
 * last destructors does not learn of its end (cache/thread.h). */
static bool ring_claim(struct ring *ring)
{
    uint64_t thread = atomic_load_explicit(&ring->thread, memory_order_relaxed);
    if (thread != 0 && !is_gone(thread)) return false;
    /* acquire: pairs with the release in quarantine_thread_ends. A thread that is gone writes no more. */
    return atomic_compare_exchange_strong_explicit(&ring->thread, &thread, thread_id(), memory_order_acquire,
                                                   memory_order_relaxed);
}

bool quarantine_empty(void)
{
    bool any = sealed_empty();
    if (HAK_MINE(mine) != NULL && empty(HAK_MINE(mine))) any = true;
    /* The rings of threads that have ended, and of those that a forked child lacks. acquire: as in ring_take. */
    for (struct ring *ring = atomic_load_explicit(&rings, memory_order_acquire); ring != NULL; ring = ring->next) {
        if (waiting(ring) == 0 || ring == HAK_MINE(mine) || !ring_claim(ring)) continue;
        any = empty(ring) || any;
        ring_give_up(ring);
    }
    return any;
}

/* Checks what waits. Then clears what the ring still says of blocks that have left it, which the search for leaks would take
 * for pointers. */
static void finish(struct ring *ring)
{
    sweep(ring);
    if (!failfast_wants_leaks()) return;
    for (uint32_t i = place_of(&ring->end); i != place_of(&ring->begin) + QUARANTINE_BLOCKS_MAX; i++)
        entry_at(ring, i)->user = NULL;
}

void quarantine_finish(void)
{
    sealed_finish();
    if (HAK_MINE(mine) != NULL) finish(HAK_MINE(mine));
    /* acquire: as in ring_take. */
    for (struct ring *ring = atomic_load_explicit(&rings, memory_order_acquire); ring != NULL; ring = ring->next) {
        if (ring == HAK_MINE(mine) || (waiting(ring) == 0 && !failfast_wants_leaks())) continue;
        bool is_ours = ring_claim(ring);
        if (!is_ours) sweep_taking(ring);
        else finish(ring);
        if (is_ours) ring_give_up(ring);
    }
}

static struct ring *ring_take(void)
{
    /* acquire: pairs with the release below. */
    struct ring *head = atomic_load_explicit(&rings, memory_order_acquire);
    for (struct ring *ring = head; ring != NULL; ring = ring->next)
        if (ring_claim(ring)) return ring;
    struct ring *made = meta_alloc(sizeof *made);
    if (made == NULL) return NULL;
    atomic_store_explicit(&made->thread, thread_id(), memory_order_relaxed);
    do {
        made->next = head;
        /* release: publishes the ring; pairs with the acquires above and in quarantine_holds. */
    } while (!atomic_compare_exchange_weak_explicit(&rings, &head, made, memory_order_release, memory_order_relaxed));
    return made;
}

/* Counted, since in a forked child `bytes` may be out of step with the entries. */
static size_t waiting_bytes(struct ring *ring)
{
    size_t bytes = 0;
    for (uint32_t i = place_of(&ring->begin); i != place_of(&ring->end); i++) bytes += entry_at(ring, i)->bytes;
    return bytes;
}

/* Gives the thread a ring if it has none. One that never allocated does not learn of its end, and leaves the ring to
 * ring_claim. False in a thread's last destructors: then its blocks do not wait, or each thread that frees so late would
 * have a second ring. */
static bool ring_start(void)
{
    if (HAK_MINE(mine) != NULL) return true;
    if (tcache_self()->state == THREAD_ENDED) return false;
    HAK_MINE(mine) = ring_take();
    if (HAK_MINE(mine) == NULL) return false;
    HAK_MINE(mine)->bytes = waiting_bytes(HAK_MINE(mine));
    HAK_MINE(mine)->put_bytes = 0;
    return true;
}

/* How many bytes may wait. There is a limit, since a waiting block keeps its page from going back to the system. */
static size_t limit_bytes(const struct ring *ring)
{
    const struct heap *heap = tcache_self()->heap;
    size_t used_bytes = heap != NULL ? owner_used_bytes(&heap->owner) : 0;
    size_t limit = (used_bytes < ring->put_bytes ? used_bytes : ring->put_bytes) >> QUARANTINE_SHARE_LOG2;
    return limit < QUARANTINE_BYTES_MIN   ? QUARANTINE_BYTES_MIN
           : limit < QUARANTINE_BYTES_MAX ? limit
                                          : QUARANTINE_BYTES_MAX;
}

void quarantine_put(const struct framed *framed)
{
    /* A block of a heap of the program's own goes back with all of its heap, and must not wait. */
    bool may_wait = own_of(framed->start) == NULL;
    if (may_wait && framed->bytes > QUARANTINE_BLOCK_BYTES_MAX && sealed_put(framed)) return;
    if (!may_wait || framed->bytes > QUARANTINE_BLOCK_BYTES_MAX || !ring_start()) {
        heap_free(framed->start);
        return;
    }
    memset(framed->user, FRAME_JUNK, framed->word.size_bytes);
    if (ASAN) sanitizer_close(framed->start, framed->bytes);
    struct ring *ring = HAK_MINE(mine);
    while (!ring->is_closed && !has_room(ring, framed->bytes, limit_bytes(ring))) leave(ring);
    if (HAK_UNLIKELY(ring->is_closed)) {
        if (ASAN) sanitizer_open(framed->start, framed->bytes);
        heap_free(framed->start);
        return;
    }
    struct frame_word word = framed->word;
    word.state = FRAME_FREED;
    struct entry *entry = entry_at(ring, place_of(&ring->end));
    entry->user = framed->user;
    entry->word = word;
    entry->bytes = (uint32_t)framed->bytes;
    /* release: pairs with the acquire in entry_take. */
    atomic_store_explicit(&entry->start, framed->start, memory_order_release);
    ring->bytes += framed->bytes;
    ring->put_bytes += framed->bytes;
    atomic_signal_fence(memory_order_release); /* entry first: a child may be forked in between */
    step(&ring->end);
}
