/* bound.c: see bound.h. Reads files without stdio, since it runs before main and must not allocate. */
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
#include "heap/heap.h"
#include "heap/huge.h"
#include "heap/own.h"
#include "os/call.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/os.h"
#include "report/text.h"
#include "superslab/limit.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

/* --- the callback ------------------------------------------------------------------------------------ */

static bound_callback_fn *callback; /* these two under LOCK_BOUND */
static void *callback_context;
static HAK_TLS bool is_asking;

void bound_callback_set(bound_callback_fn *new_callback, void *context)
{
    lock_acquire(LOCK_BOUND);
    callback = new_callback;
    callback_context = context;
    lock_release(LOCK_BOUND);
}

bool bound_ask(size_t wanted_bytes)
{
    if (HAK_MINE(is_asking)) return false;
    lock_acquire(LOCK_BOUND);
    bound_callback_fn *function = callback;
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
    for (uint32_t id = 1; id <= owner_count(); id++) {
        struct owner *owner = owner_with_id(id);
        if (owner == NULL) continue;
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

/* --- the memory that the process may have --------------------------------------------------------------- */

enum { PATH_BYTES_MAX = 1024, FILE_BYTES_MAX = 4096 };

/* Reads a file into the buffer, as a string. False: it cannot be read. */
static bool read_file(const char *path, char *bytes, size_t size)
{
    int file = call_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return false;
    size_t length = 0;
    for (intptr_t got; length < size - 1 && (got = call_read(file, bytes + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    call_close(file);
    bytes[length] = '\0';
    return length > 0;
}

static bool digits(const char **at, uint64_t *value)
{
    if (**at < '0' || **at > '9') return false;
    for (*value = 0; **at >= '0' && **at <= '9'; ++*at)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
            return false;
    return true;
}

/* The least of the limits in the cgroup and its parents. "max", and v1's number for no limit, which exceeds every
 * machine's memory, do not lower it. The path is cut in place. */
static uint64_t least_limit(const char *root, const char *mount, const char *name, char *cgroup, uint64_t least)
{
    for (;;) {
        char bytes[PATH_BYTES_MAX + 256], content[64];
        struct text path = {.bytes = bytes, .size = sizeof bytes - 1};
        text_add(&path, root);
        text_add(&path, mount);
        text_add(&path, cgroup);
        text_add(&path, "/");
        text_add(&path, name);
        bytes[path.length] = '\0';
        uint64_t limit;
        const char *at = content;
        if (read_file(bytes, content, sizeof content) && digits(&at, &limit) && limit < least) least = limit;
        char *slash = strrchr(cgroup, '/');
        if (slash == NULL) return least;
        *slash = '\0'; /* the loop ends when no part of the path is left */
    }
}

/* Whether the controllers of a line of /proc/self/cgroup, up to the colon, have the memory controller among them. */
static bool has_memory(const char *controllers, const char *end)
{
    for (const char *at = controllers; at < end;) {
        const char *next = memchr(at, ',', (size_t)(end - at));
        if (next == NULL) next = end;
        if (next - at == 6 && memcmp(at, "memory", 6) == 0) return true;
        at = next + 1;
    }
    return false;
}

static uint64_t memory_bytes(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t least = pages > 0 ? (uint64_t)pages * os_page_bytes() : UINT64_MAX;
    char path[PATH_BYTES_MAX], content[FILE_BYTES_MAX];
    struct text name = {.bytes = path, .size = sizeof path - 1};
    text_add(&name, root);
    text_add(&name, "/proc/self/cgroup");
    path[name.length] = '\0';
    if (!read_file(path, content, sizeof content)) return least;
    /* Lines are "0::/path" (v2) and "N:controllers:/path" (v1). */
    for (char *line = content, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        char *controllers = strchr(line, ':');
        char *cgroup = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (cgroup == NULL) continue;
        const char *end = cgroup++;
        if (strlen(cgroup) >= PATH_BYTES_MAX) continue;
        if (strcmp(cgroup, "/") == 0) *cgroup = '\0';
        if (controllers + 1 == end) {
            least = least_limit(root, "/sys/fs/cgroup", "memory.max", cgroup, least);
        } else if (has_memory(controllers + 1, end)) {
            least = least_limit(root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", cgroup, least);
        }
    }
    return least;
}

bool bound_read(const char *text, const char *root, size_t *limit_bytes)
{
    static const char suffixes[] = "KMGT";
    uint64_t value;
    if (!digits(&text, &value) || value == 0) return false;
    if (*text == '%' && text[1] == '\0') {
        if (value > 100) return false;
        uint64_t memory = memory_bytes(root);
        *limit_bytes = memory / 100 * value + memory % 100 * value / 100;
        return true;
    }
    const char *suffix = *text != '\0' ? strchr(suffixes, *text) : NULL;
    if (suffix != NULL) {
        if (__builtin_mul_overflow(value, (uint64_t)1 << 10 * (suffix - suffixes + 1), &value)) return false;
        text++;
    }
    *limit_bytes = value;
    return *text == '\0';
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

int bound_lock_all(int flags)
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
