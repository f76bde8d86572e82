/* sealed.c: see sealed.h. */
#include "debug/fault/sealed.h"

#include <stdatomic.h>
#include <string.h>

#include "heap/heap.h"
#include "os/os.h"
#include "report/failfast.h"
#include "superslab/limit.h"

/* A place for a block. `start` says who may use the other members: a thread that takes it by entry_take, until it stores
 * another value. */
struct entry {
    _Atomic(char *) start; /* NULL: nothing waits here; &taken: a thread is at it */
    struct framed framed;
    char *low, *high; /* the sealed part; equal: it is open again */
};

static struct entry entries[SEALED_BLOCKS_MAX];
static _Atomic(uint32_t) next; /* the entry of the next block, and of the oldest one; wraps */
static _Atomic(size_t) waiting_bytes;
static _Atomic(bool) is_on;
static char taken;

void sealed_start(void)
{
    bool is_limited = limit_get() != SIZE_MAX || os_address_space_limit_bytes() != UINT64_MAX;
    /* relaxed: it publishes nothing. */
    atomic_store_explicit(&is_on, !SANITIZED && !is_limited && frames_on(), memory_order_relaxed);
}

/* A thread that gets a block from here has the entry. acquire: pairs with the release in entry_leave. */
static char *entry_take(struct entry *entry)
{
    return atomic_exchange_explicit(&entry->start, &taken, memory_order_acquire);
}

/* release: pairs with the acquire in entry_take. */
static void entry_leave(struct entry *entry, char *start)
{
    atomic_store_explicit(&entry->start, start, memory_order_release);
}

static bool part_changed(const struct framed *framed, const char *from, const char *to, ptrdiff_t *offset)
{
    size_t bytes = (size_t)(to - from), at = frame_first_other(from, bytes, FRAME_JUNK);
    *offset = from + at - framed->user;
    return at < bytes;
}

static void check(const struct entry *entry)
{
    const struct framed *framed = &entry->framed;
    char *end = framed->user + framed->word.size_bytes;
    ptrdiff_t offset;
    if (entry->low == entry->high) return; /* it was reported already */
    if (!frame_changed_before(framed, &offset) && !part_changed(framed, framed->user, entry->low, &offset) &&
        !part_changed(framed, entry->high, end, &offset) && !frame_changed_after(framed, &offset))
        return;
    const char *call = failfast_call_set("quarantine");
    frame_refuse_bytes(FAILFAST_write_after_free, framed, offset, 0);
    failfast_call_set(call);
    frame_write(framed);
    memset(framed->user, FRAME_JUNK, (size_t)(entry->low - framed->user));
    memset(entry->high, FRAME_JUNK, (size_t)(end - entry->high));
}

static bool seal(struct entry *entry)
{
    const uintptr_t page_bytes = os_page_bytes();
    char *end = entry->framed.user + entry->framed.word.size_bytes;
    entry->low = (char *)(((uintptr_t)entry->framed.user + page_bytes - 1) & -page_bytes);
    entry->high = (char *)((uintptr_t)end & -page_bytes);
    if (entry->low >= entry->high || os->seal(entry->low, (size_t)(entry->high - entry->low)) != 0) return false;
    memset(entry->framed.user, FRAME_JUNK, (size_t)(entry->low - entry->framed.user));
    memset(entry->high, FRAME_JUNK, (size_t)(end - entry->high));
    return true;
}

/* Of an entry that the caller has taken. If the system does not open the block, it stays as it is, and no one gets it. */
static void give_back(struct entry *entry)
{
    struct framed framed = entry->framed;
    check(entry);
    bool is_open = entry->low == entry->high || os->commit(entry->low, (size_t)(entry->high - entry->low)) == 0;
    atomic_fetch_sub_explicit(&waiting_bytes, framed.bytes, memory_order_relaxed);
    entry_leave(entry, NULL);
    if (is_open) heap_free(framed.start);
}

static bool oldest_leaves(void)
{
    uint32_t first = atomic_load_explicit(&next, memory_order_relaxed);
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++) {
        struct entry *entry = &entries[(first + i) % SEALED_BLOCKS_MAX];
        char *start = atomic_load_explicit(&entry->start, memory_order_relaxed);
        if (start == NULL || start == &taken) continue;
        start = entry_take(entry);
        if (start != NULL && start != &taken) {
            give_back(entry);
            return true;
        }
        if (start == NULL) entry_leave(entry, NULL);
    }
    return false;
}

bool sealed_put(const struct framed *framed)
{
    /* relaxed, all of them: a few blocks more than the limit may wait. */
    if (!atomic_load_explicit(&is_on, memory_order_relaxed) || framed->bytes > SEALED_BYTES_MAX) return false;
    while (atomic_load_explicit(&waiting_bytes, memory_order_relaxed) + framed->bytes > SEALED_BYTES_MAX &&
           oldest_leaves()) {}
    uint32_t at = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    struct entry *entry = &entries[at % SEALED_BLOCKS_MAX];
    char *start = entry_take(entry);
    if (start == &taken) return false; /* another thread is at it */
    if (start != NULL) {
        give_back(entry);
        start = entry_take(entry);
        if (start != NULL) {
            if (start != &taken) entry_leave(entry, start);
            return false;
        }
    }
    entry->framed = *framed;
    entry->framed.word.state = FRAME_FREED;
    bool is_sealed = seal(entry);
    if (is_sealed) atomic_fetch_add_explicit(&waiting_bytes, framed->bytes, memory_order_relaxed);
    entry_leave(entry, is_sealed ? framed->start : NULL);
    return is_sealed;
}

bool sealed_empty(void)
{
    bool any = false;
    while (oldest_leaves()) any = true;
    return any;
}

void sealed_finish(void)
{
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++) {
        struct entry *entry = &entries[i];
        char *start = entry_take(entry);
        if (start == &taken) continue;
        if (start != NULL) check(entry);
        entry_leave(entry, start);
    }
}

/* An entry that another thread was at is lost to the child, with its block. */
void sealed_after_fork(void)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++) {
        char *start = atomic_load_explicit(&entries[i].start, memory_order_relaxed);
        if (start == &taken) atomic_store_explicit(&entries[i].start, NULL, memory_order_relaxed);
        else if (start != NULL) bytes += entries[i].framed.bytes;
    }
    atomic_store_explicit(&waiting_bytes, bytes, memory_order_relaxed);
}

bool sealed_holds(const char *start)
{
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++)
        if (atomic_load_explicit(&entries[i].start, memory_order_relaxed) == start) return true;
    return false;
}

/* The thread that faults uses a block that waits, so the entry stays as it is, unless the block leaves at this moment. */
static struct entry *find(const void *address)
{
    const char *at = address;
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++) {
        struct entry *entry = &entries[i];
        /* acquire: as entry_take. */
        char *start = atomic_load_explicit(&entry->start, memory_order_acquire);
        if (start != NULL && start != &taken && at >= entry->low && at < entry->high) return entry;
    }
    return NULL;
}

bool sealed_find(const void *address, struct framed *framed)
{
    const struct entry *entry = find(address);
    if (entry != NULL) *framed = entry->framed;
    return entry != NULL;
}

void sealed_open(const void *address)
{
    struct entry *entry = find(address);
    if (entry == NULL) return;
    char *start = entry_take(entry);
    if (start == &taken) return; /* the block leaves at this moment */
    const char *at = address;
    bool is_in = start != NULL && at >= entry->low && at < entry->high;
    if (is_in && os->commit(entry->low, (size_t)(entry->high - entry->low)) == 0) entry->high = entry->low;
    entry_leave(entry, start);
}

bool sealed_is_open(const void *address)
{
    for (uint32_t i = 0; i < SEALED_BLOCKS_MAX; i++) {
        struct entry *entry = &entries[i];
        /* acquire: as entry_take. */
        char *start = atomic_load_explicit(&entry->start, memory_order_acquire);
        if (start == NULL || start == &taken || entry->low != entry->high) continue;
        if ((uintptr_t)address - (uintptr_t)entry->framed.user < entry->framed.word.size_bytes) return true;
    }
    return false;
}
