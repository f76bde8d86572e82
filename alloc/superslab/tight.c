/* tight.c: see tight.h. What is found orders nothing: relaxed everywhere. */
#include "superslab/tight.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/config.h"
#include "os/os.h"
#include "superslab/pagemap.h"

enum { SPACE_TRIED_LOG2 = 44 /* a limit above 16 TiB is none */ };

/* The limit on address space that was found last, and when that was. */
static _Atomic(uint64_t) limit_bytes = UINT64_MAX, limit_read_ms;

static _Atomic(size_t) tried_count; /* superslabs when address space was last plenty */

/* Whether superslabs take a large share of the limit, while blocks of this length need not be too many mappings. */
static bool is_near(uint64_t limit, uint64_t taken_bytes, size_t block_bytes)
{
    uint64_t mappings_max = pagemap_is_window() ? TIGHT_WINDOW_MAPPINGS_MAX : TIGHT_MAPPINGS_MAX;
    return taken_bytes > limit / TIGHT_SHARE && block_bytes >= limit / mappings_max;
}

/* How much address space the process may have; nobody is asked for RLIMIT_AS after start. A process that begins with a limit
 * has that one: a trial takes address space for a moment, which another thread would lack near the limit. For the others a
 * bound, at most twice as much as it is, since one may have been set later: what superslabs take, and less than what is
 * refused beside. UINT64_MAX: they take no large share. */
static uint64_t limit_find(uint64_t taken_bytes)
{
    if (pagemap_limit_bytes() != UINT64_MAX) return pagemap_limit_bytes();
    uint64_t beside = (uint64_t)1 << SPACE_TRIED_LOG2;
    if (taken_bytes < beside / TIGHT_SHARE) beside = taken_bytes * (TIGHT_SHARE - 1);
    if (os_has_space(beside)) return UINT64_MAX;
    while (beside > taken_bytes && !os_has_space(beside / 2)) beside /= 2;
    return taken_bytes + beside - 1;
}

bool tight_is(const struct page_need *need, size_t superslab_count)
{
    const uint64_t taken_bytes = (uint64_t)superslab_count * SUPERSLAB_BYTES;
    if (superslab_count < TIGHT_SUPERSLABS_MIN) return false;
    size_t used = SUPERSLAB_PAGES / need->pages * round_up(need->block_bytes, os_page_bytes());
    if (SUPERSLAB_BYTES - used <= SUPERSLAB_BYTES / TIGHT_WASTE) return false;
    uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed), now_ms = os_now_ms();
    bool is_recent = now_ms < atomic_load_explicit(&limit_read_ms, memory_order_relaxed) + TIGHT_READ_MS;
    if (is_recent && is_near(limit, taken_bytes, need->block_bytes)) return true;
    const size_t tried = atomic_load_explicit(&tried_count, memory_order_relaxed);
    if (is_recent && limit == UINT64_MAX && superslab_count <= tried + tried / 64) return false;
    limit = limit_find(taken_bytes);
    atomic_store_explicit(&tried_count, superslab_count, memory_order_relaxed);
    atomic_store_explicit(&limit_bytes, limit, memory_order_relaxed);
    atomic_store_explicit(&limit_read_ms, now_ms, memory_order_relaxed);
    return is_near(limit, taken_bytes, need->block_bytes);
}
