/* own_dead.c: pages of blocks that a heap of the program's own has given back all at once. See own_inside.h. Not a part of
 * the release library. */
#include "base/config.h"
#include "heap/own_inside.h"
#include "os/lock.h"
#include "os/os.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

struct range {
    struct superslab *superslab;
    uint32_t first, pages, slab_eighths;
};

/* Under LOCK_OWN_HEAPS. */
static struct range ranges[OWN_DEAD_RANGES_MAX];
static uint32_t oldest, count, page_count;

static void leave(void)
{
    struct range *range = &ranges[oldest];
    oldest = (oldest + 1) % OWN_DEAD_RANGES_MAX;
    count--;
    page_count -= range->pages;
    pagemap_tag_set(superslab_base(range->superslab) + (size_t)range->first * PAGE_BYTES, range->pages, 0);
    pool_free(range->superslab, range->first, range->pages, range->slab_eighths);
}

void own_dead_put(struct superslab *superslab, uint32_t first, uint32_t pages, uint32_t slab_eighths)
{
    char *start = superslab_base(superslab) + (size_t)first * PAGE_BYTES;
    pagemap_tag_set(start, pages, CLASS_OWN_DEAD);
    os->purge(start, (size_t)pages * PAGE_BYTES);
    own_heaps_lock();
    while (count == OWN_DEAD_RANGES_MAX || (count > 0 && page_count + pages > OWN_DEAD_PAGES_MAX)) leave();
    ranges[(oldest + count++) % OWN_DEAD_RANGES_MAX] = (struct range){superslab, first, pages, slab_eighths};
    page_count += pages;
    lock_release(LOCK_OWN_HEAPS);
}

void own_dead_drop(void)
{
    oldest = count = page_count = 0;
}

size_t own_dead_bytes(void)
{
    own_heaps_lock();
    size_t bytes = (size_t)page_count * PAGE_BYTES;
    lock_release(LOCK_OWN_HEAPS);
    return bytes;
}

void own_dead_free_all(void)
{
    own_heaps_lock();
    while (count > 0) leave();
    lock_release(LOCK_OWN_HEAPS);
}
