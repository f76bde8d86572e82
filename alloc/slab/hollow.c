/* hollow.c: see hollow.h. */
#include "slab/hollow.h"

#include <string.h>

#include "report/broken.h"
#include "slab/layout.h"

/* --- memory that a slab begins with, and leaves ------------------------------------------------------------ */

/* The bits of page i's hollow_pages for the system's pages that lie wholly in [first, end), offsets in the slab. */
static uint16_t whole_bits(const struct layout *at, uint32_t i, uint32_t first, uint32_t end)
{
    uint32_t low = (first + at->os_bytes - 1) / at->os_bytes, high = end / at->os_bytes, page = i * at->os_pages;
    low = low > page ? low - page : 0;
    high = high > page ? high - page : 0;
    if (high > at->os_pages) high = at->os_pages;
    return low < high ? (uint16_t)((1u << high) - (1u << low)) : 0;
}

void slab_begin_dirty(struct slab *slab, const struct page_range *range, bool at_once)
{
    struct layout at = layout_of(slab);
    slab->fresh = at_once && has_os_pages(&at);
    for (uint32_t i = 0; !slab->fresh && i < slab->page_count; i++) slab[i].hollow_pages = 0;
    if (!slab->fresh) return;
    const uint32_t used_end = at.colour + slab->capacity * at.block_bytes;
    const uint16_t every = whole_bits(&at, 0, 0, PAGE_BYTES);
    bool is_zero = true;
    for (uint32_t i = 0; i < slab->page_count; i++) {
        uint16_t zero = page_zero_bits(range, slab, i) & every;
        is_zero = is_zero && zero == every;
        /* A page behind the last block has nothing to carve. */
        if (zero != 0) zero &= whole_bits(&at, i, 0, (used_end + at.os_bytes - 1) / at.os_bytes * at.os_bytes);
        slab[i].hollow_pages = zero;
    }
    if (is_zero) { /* then it is carved in order, as fresh memory is */
        for (uint32_t i = 0; i < slab->page_count; i++) slab[i].hollow_pages = 0;
        return;
    }
    slab->hollow = any_hollow(slab);
    struct idle idle;
    memset(idle.words, 0, word_count(&at) * sizeof(uint64_t));
    idle_set(&idle, 0, slab->capacity);
    slab->carved_count = (uint16_t)remark(&at, &idle);
    owner_carved_bytes_add(slab->owner, (size_t)slab->carved_count * at.block_bytes);
}

void slab_end_untouched(struct slab *slab)
{
    struct layout at = layout_of(slab);
    if (!has_os_pages(&at)) return;
    const uint32_t carved_end = (uint32_t)slab->carve_start + slab->carved_count;
    const bool wraps = carved_end >= slab->capacity;
    const uint32_t block = wraps ? carved_end - slab->capacity : carved_end; /* the first that was not carved */
    const uint32_t first = block == 0 ? 0 : at.colour + block * at.block_bytes;
    const uint32_t start = at.colour + slab->carve_start * at.block_bytes,
                   end = slab->page_count * (uint32_t)PAGE_BYTES;
    uint64_t partial = 0;
    for (uint32_t i = 0; i < slab->page_count; i++) {
        if (!slab->hollow && wraps) slab[i].hollow_pages = whole_bits(&at, i, first, start);
        if (!slab->hollow && !wraps)
            slab[i].hollow_pages = whole_bits(&at, i, first, end) | whole_bits(&at, i, 0, start);
        if (slab[i].hollow_pages != 0) partial |= 1ull << (slab->page_index + i);
    }
    superslab_partial_set(superslab_of(slab), slab->page_index, slab->page_count, partial);
}

/* --- carving hollow memory ----------------------------------------------------------------------------- */

static bool touches_hollow(const struct layout *at, uint32_t block)
{
    uint32_t last = last_os_page(at, block);
    for (uint32_t os_page = first_os_page(at, block); os_page <= last; os_page++)
        if (is_hollow(at, os_page)) return true;
    return false;
}

static struct block *block_at(const struct layout *at, uint32_t block)
{
    return (struct block *)(void *)(at->start + at->colour + (size_t)block * at->block_bytes);
}

/* Marks the pages that a block touches as not hollow. Bit i of the result is set if page first + i was hollow before,
 * where first is the first page that the block touches. */
static uint32_t fill(const struct layout *at, uint32_t block)
{
    uint32_t first = first_os_page(at, block), filled = 0;
    for (uint32_t os_page = first; os_page <= last_os_page(at, block); os_page++) {
        if (!is_hollow(at, os_page)) continue;
        hollow_set(at, os_page, false);
        filled |= 1u << (os_page - first);
    }
    return filled;
}

/* Whether a block touches one of the pages in the result of fill(). */
static bool touches_filled(const struct layout *at, uint32_t block, uint32_t first, uint32_t filled)
{
    for (uint32_t os_page = first_os_page(at, block); os_page <= last_os_page(at, block); os_page++)
        if (os_page - first < 32 && (filled >> (os_page - first) & 1) != 0) return true;
    return false;
}

struct block *slab_carve_hollow(struct slab *slab, uint32_t *count)
{
    struct layout at = layout_of(slab);
    uint32_t os_page = 0, os_page_end = os_page_count(&at);
    while (os_page < os_page_end && !is_hollow(&at, os_page)) os_page++;
    if (os_page == os_page_end) broken(BROKEN_hollow, slab->class_index, slab);
    uint32_t block = first_block(&at, os_page);
    uint32_t first = first_os_page(&at, block), end = end_block(&at, last_os_page(&at, block));
    uint32_t filled = fill(&at, block);
    struct block *list = NULL, **tail = &list;
    if (slab->was_trimmed) slab->owner->trimmed_is_wanted = true;
    *count = 0;
    for (; block < end; block++) {
        /* A block that also touches a page that is still hollow is carved with that one. */
        if (!touches_filled(&at, block, first, filled) || touches_hollow(&at, block)) continue;
        link_set(tail, block_at(&at, block));
        tail = &link_get(tail)->next;
        ++*count;
    }
    link_set(tail, NULL);
    slab->carved_count = (uint16_t)(slab->carved_count + *count);
    owner_carved_bytes_add(slab->owner, (size_t)*count * at.block_bytes);
    slab->hollow = any_hollow(slab);
    return list;
}
