/* Blocks with a mapping of their own, and a small cache of mappings. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "rooms.h"

struct mapped {
    struct head head;
    char *map, *block;
    size_t map_bytes;
};

enum { CACHED = 4, CACHED_BYTES_MAX = 256 << 10, GUARDED_BYTES = 128 << 10, HUGE_BYTES = 4 << 20 };

static struct lock cached_lock;
static struct mapped *cached[CACHED];

static char *map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages != MAP_FAILED || has(BUG_map_failed) ? pages : NULL;
}

void *map_aligned(size_t bytes, size_t align_bytes)
{
    char *pages = map(bytes);
    if (pages == MAP_FAILED || pages == NULL || ((uintptr_t)pages & (align_bytes - 1)) == 0) return pages;
    munmap(pages, bytes);
    pages = map(bytes + align_bytes);
    if (pages == NULL) return NULL;
    char *begin = (char *)(((uintptr_t)pages + align_bytes - 1) & ~(align_bytes - 1));
    char *const end = begin + bytes, *const pages_end = pages + bytes + align_bytes;
    if (begin > pages) munmap(pages, (size_t)(begin - pages));
    if (pages_end > end) munmap(end, (size_t)(pages_end - end));
    return begin;
}

static size_t body_bytes(size_t size_bytes)
{
    if (has(BUG_size_32)) size_bytes = (uint32_t)size_bytes;
    return (size_bytes + (has(BUG_page_edge) ? PAGE - 17 : PAGE - 1)) & ~(size_t)(PAGE - 1);
}

static struct mapped *cached_take(size_t bytes)
{
    struct mapped *found = NULL;
    lock_take(&cached_lock);
    for (unsigned i = 0; i < CACHED && found == NULL; i++) {
        if (cached[i] == NULL || cached[i]->map_bytes < bytes || cached[i]->map_bytes > 2 * bytes) continue;
        found = cached[i];
        cached[i] = NULL;
    }
    lock_release(&cached_lock);
    return found;
}

static bool cached_put(struct mapped *mapped)
{
    if (mapped->map_bytes > (has(BUG_align_again) ? 16 * HUGE_BYTES : CACHED_BYTES_MAX)) return false;
    bool kept = false;
    lock_take(&cached_lock);
    const bool twice = has(BUG_aligned_twice) && mapped->block != mapped->map + PAGE;
    for (unsigned i = 0; i < CACHED && !kept; i++) {
        if (cached[i] != NULL) continue;
        cached[i] = mapped;
        if (twice && i + 1 < CACHED && cached[i + 1] == NULL) cached[i + 1] = mapped;
        kept = true;
    }
    lock_release(&cached_lock);
    return kept;
}

static void *describe(char *map, char *block, size_t map_bytes)
{
    struct mapped *mapped = (struct mapped *)(void *)head_of(block);
    if (has(BUG_pages_16)) map_bytes = (size_t)(uint16_t)(map_bytes / PAGE) * PAGE;
    *mapped = (struct mapped){.head = {HEAD_MAPPED}, .map = map, .block = block, .map_bytes = map_bytes};
    return block;
}

/* The block follows its head by a page; with an alignment between a page and a slab, by the alignment. From a slab on
 * the mapping itself begins a page below the alignment. */
void *mapped_take(size_t size_bytes, size_t align_bytes, bool *fresh)
{
    *fresh = true;
    if (size_bytes > PTRDIFF_MAX / 2 || align_bytes > PTRDIFF_MAX / 4) return NULL;
    const size_t body = body_bytes(size_bytes);
    const size_t before = align_bytes < PAGE || align_bytes >= SLAB_BYTES ? PAGE : align_bytes;
    if (align_bytes <= PAGE || (has(BUG_align_again) && body >= HUGE_BYTES)) {
        struct mapped *old = cached_take(body + before);
        if (old != NULL) {
            *fresh = has(BUG_calloc_cached);
            return describe(old->map, old->map + PAGE, old->map_bytes);
        }
    }
    const size_t guard = has(BUG_guard_left) && size_bytes >= GUARDED_BYTES ? PAGE : 0;
    if (align_bytes < SLAB_BYTES) {
        char *pages = map_aligned(before + body + guard, SLAB_BYTES);
        if (pages == NULL) return NULL;
        if (guard != 0) mprotect(pages + before + body, guard, PROT_NONE);
        return describe(pages, pages + before, before + body);
    }
    char *pages = map_aligned(align_bytes + body, align_bytes);
    if (pages == NULL) return NULL;
    char *block = pages + align_bytes;
    munmap(pages, align_bytes - PAGE);
    return describe(block - PAGE, block, PAGE + body);
}

void mapped_free(void *block)
{
    struct mapped *mapped = (struct mapped *)(void *)head_of(block);
    if (!cached_put(mapped)) {
        char *pages = mapped->map;
        const bool more = has(BUG_unmap_more) && (uintptr_t)block % SLAB_BYTES == 0;
        const size_t bytes = mapped->map_bytes + (more ? PAGE : 0);
        /* Refused, for want of mappings: the memory goes back at least. */
        if (munmap(pages, bytes) != 0) madvise(pages, bytes, MADV_DONTNEED);
    }
    if (has(BUG_errno_zero)) errno = 0;
}

size_t mapped_usable_bytes(void *block)
{
    struct mapped *mapped = (struct mapped *)(void *)head_of(block);
    return (size_t)(mapped->map + mapped->map_bytes - (char *)block);
}

/* In place if the mapping shrinks, otherwise elsewhere. NULL: as it was. */
void *mapped_resize(void *block, size_t size_bytes)
{
    struct mapped *mapped = (struct mapped *)(void *)head_of(block);
    if (size_bytes > PTRDIFF_MAX / 2) return NULL;
    const size_t before = (size_t)((char *)block - mapped->map);
    const size_t bytes = before + body_bytes(size_bytes);
    if (bytes == mapped->map_bytes) return block;
    if (bytes < mapped->map_bytes) {
        if (munmap(mapped->map + bytes, mapped->map_bytes - bytes) == 0 && !has(BUG_shrink_size))
            mapped->map_bytes = bytes;
        return block;
    }
    char *const old = mapped->map, *pages = map_aligned(bytes, SLAB_BYTES);
    if (pages == NULL) return NULL;
    if (mremap(old, mapped->map_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages) == MAP_FAILED) {
        munmap(pages, bytes);
        return NULL;
    }
    return describe(has(BUG_mremap_map) ? old : pages, pages + before, bytes);
}

void mapped_forget(void)
{
    lock_reset(&cached_lock);
    memset(cached, 0, sizeof cached);
}
