/* guard.c: see guard.h. */
#include "guard/guard.h"
#include "guard/guard_report.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bits.h"
#include "base/sizeclass.h"
#include "os/call.h"
#include "os/libc.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/peek.h"
#include "report/modules.h"
#include "superslab/pagemap.h"

enum { RANGE_BYTES_MAX = 1 << 30 }; /* one slice of the page map, which pagemap_reserve backs, holds its tags */

enum slot_state { SLOT_UNUSED, SLOT_BUSY, SLOT_LIVE, SLOT_FREED };

/* A thread that has set the state to BUSY may write the other members, and no other thread may. */
struct slot {
    _Atomic(uint32_t) state;
    _Atomic(uint32_t) size_bytes;
    struct guard_event allocated, freed;
};

/* Constant after guard_start. */
static char *range;
static size_t page_bytes;
static uint32_t slot_count;
static struct slot *slots;

/* A ring of the free slots, under the GUARD lock. It needs no repair in a forked child, since each end is moved by one
 * store. */
static uint32_t *queue;
static _Atomic(uint64_t) queue_first, queue_end;

static char *page_of(uint32_t index)
{
    return range + (2 * (size_t)index + 1) * page_bytes;
}

static char *start_of(uint32_t index, size_t size_bytes)
{
    return page_of(index) + page_bytes - round_up(size_bytes, GRANULE_BYTES);
}

/* --- the queue ------------------------------------------------------------------------------------------ */

static bool slot_take(uint32_t *index)
{
    lock_acquire(LOCK_GUARD);
    uint64_t first = atomic_load_explicit(&queue_first, memory_order_relaxed);
    bool any = first != atomic_load_explicit(&queue_end, memory_order_relaxed);
    if (any) {
        *index = queue[first % slot_count];
        atomic_store_explicit(&queue_first, first + 1, memory_order_relaxed);
    }
    lock_release(LOCK_GUARD);
    return any;
}

static void slot_put(uint32_t index)
{
    lock_acquire(LOCK_GUARD);
    uint64_t end = atomic_load_explicit(&queue_end, memory_order_relaxed);
    queue[end % slot_count] = index;
    /* A child that is forked now and has the next store has this one too. */
    atomic_signal_fence(memory_order_release);
    atomic_store_explicit(&queue_end, end + 1, memory_order_relaxed);
    lock_release(LOCK_GUARD);
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static HAK_ALIGNS_STACK void event_set(struct guard_event *event)
{
    void *frames[GUARD_FRAMES + 1]; /* one more for this function's own */
    int count = os_backtrace(frames, GUARD_FRAMES + 1);
    event->count = count > 1 ? (uint32_t)count - 1 : 0;
    for (uint32_t i = 0; i < event->count; i++) {
        const struct module_place *place = NULL;
        event->frames[i] = modules_lasting((uintptr_t)frames[i + 1] - 1, MODULES_SURELY, &place) + 1;
    }
    event->thread = (uint32_t)call_gettid();
}

void *guard_alloc(size_t size_bytes)
{
    uint32_t index;
    if (!slot_take(&index)) return NULL;
    struct slot *slot = &slots[index];
    /* relaxed: the queue's lock orders this after what the slot's last thread did. Until it is LIVE only this thread
     * uses it. */
    uint32_t before = atomic_load_explicit(&slot->state, memory_order_relaxed);
    atomic_store_explicit(&slot->state, SLOT_BUSY, memory_order_relaxed);
    if (os->commit(page_of(index), page_bytes) != 0) {
        atomic_store_explicit(&slot->state, before, memory_order_relaxed);
        slot_put(index);
        return NULL;
    }
    atomic_store_explicit(&slot->size_bytes, (uint32_t)size_bytes, memory_order_relaxed);
    slot->freed.thread = slot->freed.count = 0;
    event_set(&slot->allocated);
    /* release: pairs with the acquire in guard_free, so that the thread that frees the block sees its record. */
    atomic_store_explicit(&slot->state, SLOT_LIVE, memory_order_release);
    return start_of(index, size_bytes);
}

/* The slot of a live block that starts at pointer. NULL: there is none, and *finding says why. */
static struct slot *slot_of(const void *pointer, uint32_t *index, enum record_finding *finding)
{
    size_t cell = (size_t)((const char *)pointer - range) / page_bytes;
    *index = (uint32_t)(cell / 2);
    *finding = RECORD_FINDING_freed_inside;
    if (cell % 2 == 0 || *index >= slot_count) return NULL;
    struct slot *slot = &slots[*index];
    /* relaxed: the hand-over of the block to this thread orders the size too. guard_free acquires the rest. */
    uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    uint32_t size_bytes = atomic_load_explicit(&slot->size_bytes, memory_order_relaxed);
    if (state == SLOT_UNUSED || pointer != start_of(*index, size_bytes)) return NULL;
    *finding = RECORD_FINDING_freed_twice; /* also if it is BUSY: another thread is freeing it now */
    return state == SLOT_LIVE ? slot : NULL;
}

void guard_free(void *pointer)
{
    uint32_t index, live = SLOT_LIVE;
    enum record_finding finding;
    struct slot *slot = slot_of(pointer, &index, &finding);
    /* acquire: pairs with the release in guard_alloc. If two threads free the block at once, only one of them
     * succeeds. */
    if (slot == NULL || !atomic_compare_exchange_strong_explicit(&slot->state, &live, SLOT_BUSY, memory_order_acquire,
                                                                 memory_order_relaxed))
        guard_misused(pointer, finding);
    event_set(&slot->freed);
    os->seal(page_of(index), page_bytes); /* if the system refuses, later accesses to the block are not found */
    /* relaxed: the queue's lock publishes the record. A report may copy it at any moment (slot_describe). */
    atomic_store_explicit(&slot->state, SLOT_FREED, memory_order_relaxed);
    slot_put(index);
}

size_t guard_usable_size(const void *pointer)
{
    uint32_t index;
    enum record_finding finding;
    const struct slot *slot = slot_of(pointer, &index, &finding);
    if (slot == NULL) return 0;
    return round_up((size_t)atomic_load_explicit(&slot->size_bytes, memory_order_relaxed), GRANULE_BYTES);
}

bool guard_resize(void *pointer, size_t size_bytes)
{
    uint32_t index;
    enum record_finding finding;
    struct slot *slot = slot_of(pointer, &index, &finding);
    if (slot == NULL) guard_misused(pointer, finding);
    size_t old_bytes = atomic_load_explicit(&slot->size_bytes, memory_order_relaxed);
    if (round_up(old_bytes, GRANULE_BYTES) != round_up(size_bytes, GRANULE_BYTES)) return false;
    atomic_store_explicit(&slot->size_bytes, (uint32_t)size_bytes, memory_order_relaxed);
    return true;
}

/* --- reports -------------------------------------------------------------------------------------------- */

struct guard_figures guard_figures(void)
{
    /* relaxed: only figures. Each sampled block has taken one slot from the queue. */
    uint64_t taken = atomic_load_explicit(&queue_first, memory_order_relaxed);
    uint64_t put = atomic_load_explicit(&queue_end, memory_order_relaxed);
    return (struct guard_figures){.sampled = taken, .live = slot_count - (uint32_t)(put - taken), .slots = slot_count};
}

/* Fills in what a slot knows of history->address: nothing if there is no such slot, or it has never had a block. */
static void slot_describe(uint32_t index, struct guard_history *history)
{
    struct slot copy; /* copied by the kernel, since another thread may be writing */
    if (index >= slot_count || !os_peek(&slots[index], &copy, sizeof copy)) return;
    uint32_t state = atomic_load_explicit(&copy.state, memory_order_relaxed);
    uint32_t size_bytes = atomic_load_explicit(&copy.size_bytes, memory_order_relaxed);
    if (size_bytes == 0 || size_bytes > GUARD_BYTES_MAX) return; /* 0: never used */
    history->slot = index;
    history->start = (uint64_t)(uintptr_t)start_of(index, size_bytes);
    history->size_bytes = size_bytes;
    history->state = state == SLOT_LIVE    ? RECORD_STATE_live
                     : state == SLOT_FREED ? RECORD_STATE_freed
                                           : RECORD_STATE_unknown;
    history->allocated = copy.allocated;
    history->freed = copy.freed;
    if (history->allocated.count > GUARD_FRAMES) history->allocated.count = 0;
    if (history->freed.count > GUARD_FRAMES) history->freed.count = 0;
    if (history->address < history->start) {
        history->finding = RECORD_FINDING_before;
    } else if (history->address >= history->start + size_bytes) {
        history->finding = RECORD_FINDING_past_end;
    } else {
        history->finding = state == SLOT_LIVE ? RECORD_FINDING_none : RECORD_FINDING_use_after;
    }
}

/* From a block; from no block, whose start is 0, it is farther than from any. */
static uint64_t distance(const struct guard_history *history)
{
    if (history->address < history->start) return history->start - history->address;
    return history->address - history->start - history->size_bytes;
}

bool guard_find(uint64_t address, struct guard_history *history)
{
    *history = (struct guard_history){.address = address, .state = RECORD_STATE_unknown};
    uint64_t first = (uint64_t)(uintptr_t)range;
    if (slots == NULL || address < first) return false;
    if (address - first >= (2 * (uint64_t)slot_count + 1) * page_bytes) return false;
    uint64_t cell = (address - first) / page_bytes;
    history->slot = (uint32_t)(cell / 2);
    if (cell % 2 == 1) {
        slot_describe((uint32_t)(cell / 2), history);
        return true;
    }
    struct guard_history below = *history;
    slot_describe((uint32_t)(cell / 2 - 1), &below); /* at either end there is no such slot */
    slot_describe((uint32_t)(cell / 2), history);
    if (distance(&below) < distance(history)) *history = below;
    return true;
}

/* --- start ---------------------------------------------------------------------------------------------- */

/* Linux joins neighbouring mappings only if both share an anon_vma, which the first page fault in a mapping makes. So
 * the range takes a fault while it is still a single mapping. Then neighbouring sealed pages join into one mapping
 * again, and the process has two extra mappings for each live block, not for each slot that was ever used. */
static void join_mappings(size_t range_bytes)
{
    if (os->commit(range, range_bytes) != 0) return;
    *(volatile char *)range = 1;
    os->seal(range, range_bytes);
}

bool guard_start(uint32_t new_slot_count)
{
    page_bytes = os_page_bytes();
    while ((2 * (uint64_t)new_slot_count + 1) * page_bytes > RANGE_BYTES_MAX) new_slot_count /= 2;
    size_t range_bytes = round_up((2 * (size_t)new_slot_count + 1) * page_bytes, PAGE_BYTES);
    size_t align_bytes = SUPERSLAB_BYTES;
    while (align_bytes < range_bytes) align_bytes *= 2;
    struct slot *new_slots = meta_alloc(new_slot_count * sizeof *slots);
    queue = meta_alloc(new_slot_count * sizeof *queue);
    range = new_slots != NULL && queue != NULL ? pagemap_reserve(range_bytes, align_bytes) : NULL;
    if (range == NULL) return false;
    join_mappings(range_bytes);
    for (uint32_t i = 0; i < new_slot_count; i++) queue[i] = i;
    /* relaxed: sampling_guard_set publishes this and everything else. */
    atomic_store_explicit(&queue_end, new_slot_count, memory_order_relaxed);
    slot_count = new_slot_count;
    slots = new_slots;
    pagemap_tag_set(range, (uint32_t)(range_bytes / PAGE_BYTES), CLASS_GUARD);
    return true;
}
