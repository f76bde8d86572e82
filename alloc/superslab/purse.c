/* purse.c: see purse.h. */
#include "superslab/purse.h"

#include <stdalign.h>
#include <stdatomic.h>

#include "base/config.h"
#include "superslab/purge.h"

/* On a line apart from what every call reads. It orders nothing: relaxed. */
static struct {
    alignas(CACHE_LINE_BYTES) _Atomic(size_t) bytes;
} all_bought;

size_t purse_bought_bytes(void)
{
    return atomic_load_explicit(&all_bought.bytes, memory_order_relaxed);
}

size_t purse_bytes_max(void)
{
    size_t share = purge_claimed_pages() * PAGE_BYTES >> PURSE_SHARE_LOG2;
    return share > PURSE_BYTES ? share : PURSE_BYTES;
}

bool purse_buy(size_t *bought_bytes, size_t bytes, bool is_wanted)
{
    if (*bought_bytes + bytes > PURSE_HEAP_LEAST_BYTES) {
        size_t most = is_wanted ? purse_bytes_max() : PURSE_FIRST_BYTES, before = purse_bought_bytes();
        do
            if (before + bytes > most) return false;
        while (!atomic_compare_exchange_weak_explicit(&all_bought.bytes, &before, before + bytes, memory_order_relaxed,
                                                      memory_order_relaxed));
    } else {
        atomic_fetch_add_explicit(&all_bought.bytes, bytes, memory_order_relaxed);
    }
    *bought_bytes += bytes;
    return true;
}

void purse_return(size_t *bought_bytes, size_t bytes)
{
    if (bytes > *bought_bytes) bytes = *bought_bytes;
    if (bytes == 0) return;
    atomic_fetch_sub_explicit(&all_bought.bytes, bytes, memory_order_relaxed);
    *bought_bytes -= bytes;
}

void purse_recount(size_t bytes)
{
    atomic_store_explicit(&all_bought.bytes, bytes, memory_order_relaxed);
}
