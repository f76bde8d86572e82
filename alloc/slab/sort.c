/* sort.c: see sort.h. */
#include "slab/sort.h"

/* A free list that was not touched for long is a chain of cache misses, one after the other. Reads that do not depend on
 * each other miss at the same time. (Prefetches are dropped when too many are under way: measured, they saved half as
 * much.) Blocks in use are read too, and another processor may hold them, so the list must be half of the slab. Their
 * threads may write meanwhile: the values are not used. A page of the system that holds no memory is not read, since
 * that would be a page fault: so only where all of the slab is carved and none is hollow. */
static void read_ahead(const struct slab *slab, const char *start)
{
    if (ASAN || TSAN || slab->hollow || slab->carved_count != slab->capacity) return;
    uint32_t block_bytes = sizeclass_bytes(slab->class_index);
    uint32_t step_bytes = block_bytes < CACHE_LINE_BYTES ? CACHE_LINE_BYTES : block_bytes;
    for (uint32_t at = 0; at < PAGE_BYTES; at += step_bytes) (void)*(const volatile char *)(start + at);
}

struct block *slab_take_sorted(struct slab *slab, uint32_t *count)
{
    struct block *list = slab->free, *rest = list;
    slab->free = NULL;
    if (slab->page_count != 1 || slab->drained || *count < SORTED_MIN) return list;
    uint64_t bits[PAGE_BYTES / GRANULE_BYTES / 64] = {0};
    char *start = superslab_page_start(superslab_of(slab), slab);
    uint32_t taken = *count < SORTED_MAX ? *count : SORTED_MAX;
    if (!slab->cut && *count >= slab->capacity / READ_AHEAD_PART) read_ahead(slab, start);
    slab->cut = false;
    for (uint32_t left = taken; left > 0 && rest != NULL; left--, rest = link_get(&rest->next)) {
        size_t granule = ((uintptr_t)rest - (uintptr_t)start) / GRANULE_BYTES;
        if (granule >= PAGE_BYTES / GRANULE_BYTES) return list;
        bits[granule / 64] |= 1ull << granule % 64;
    }
    if ((rest == NULL) != (taken == *count)) return list;
    /* A walk that met a block twice has been round the cycle, so the next block was met too. */
    size_t next = ((uintptr_t)rest - (uintptr_t)start) / GRANULE_BYTES;
    if (rest != NULL && (next >= PAGE_BYTES / GRANULE_BYTES || (bits[next / 64] >> next % 64 & 1) != 0)) return list;
    struct block **link = &list;
    for (uint32_t word = 0; word < PAGE_BYTES / GRANULE_BYTES / 64; word++) {
        for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
            struct block *block =
                (struct block *)(void *)(start + (size_t)(64 * word + (uint32_t)__builtin_ctzll(left)) * GRANULE_BYTES);
            link_set(link, block);
            link = &block->next;
        }
    }
    link_set(link, NULL);
    slab->free = rest;
    slab->cut = rest != NULL;
    *count = taken;
    return list;
}
