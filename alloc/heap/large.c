/* large.c: see large.h. */
#include "heap/large.h"

#include "base/bits.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

static uint32_t pages_for(size_t size_bytes)
{
    uint32_t pages = (uint32_t)(round_up(size_bytes, PAGE_BYTES) / PAGE_BYTES);
    return pages > 0 ? pages : 1; /* a size of 0, with an alignment above the small blocks' */
}

void *large_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool *zero)
{
    uint32_t pages = pages_for(size_bytes);
    uint32_t align_pages = pages_for(align_bytes), room_pages = grows ? pages : 0;
    struct page_need need = {pages, align_pages, room_pages, .from_top = true};
    struct page_range range = pool_claim_for(need);
    if (range.superslab == NULL && grows) range = pool_claim(pages, align_pages, true);
    if (range.superslab == NULL) return NULL;
    struct slab *run = &range.superslab->slabs[range.first];
    run->page_count = (uint8_t)pages;
    run->page_index = (uint8_t)range.first;
    run->page_offset = 0;
    char *start = superslab_page_start(range.superslab, run);
    pagemap_tag_set(start, 1, CLASS_RUN);
    if (VALIDATE) validate_alloc_run(start);
    *zero = range.zero;
    return start;
}

void large_free(void *pointer)
{
    struct slab *run = slab_of(pointer);
    if (HAK_UNLIKELY(!pagemap_tag_take(pointer, CLASS_RUN))) return; /* another thread is freeing it too */
    pool_free(superslab_of(run), run->page_index, run->page_count, 0);
}

size_t large_usable_size(const void *pointer)
{
    return (size_t)slab_of(pointer)->page_count * PAGE_BYTES;
}

bool large_resize(void *pointer, size_t size_bytes)
{
    struct slab *run = slab_of(pointer);
    uint32_t old_pages = run->page_count;
    uint32_t new_pages = pages_for(size_bytes);
    if (new_pages < old_pages) {
        run->page_count = (uint8_t)new_pages;
        pool_free(superslab_of(run), run->page_index + new_pages, old_pages - new_pages, 0);
    } else if (new_pages > old_pages) {
        if (!pool_extend(superslab_of(run), run->page_index, old_pages, new_pages)) return false;
        run->page_count = (uint8_t)new_pages;
    }
    return true;
}
