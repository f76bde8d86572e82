/* large.c: see large.h. */
#include "heap/large.h"

#include "base/bits.h"
#include "heap/huge.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

static uint32_t pages_for(size_t size_bytes)
{
    uint32_t pages = (uint32_t)(round_up(size_bytes, PAGE_BYTES) / PAGE_BYTES);
    return pages > 0 ? pages : 1; /* a size of 0, with an alignment above the small blocks' */
}

/* is_tight: whether the block should have a mapping of its own, and got nothing here; NULL: it must be a run. */
HAK_INLINE void *run_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool *zero, bool *is_tight)
{
    uint32_t pages = pages_for(size_bytes);
    uint32_t align_pages = pages_for(align_bytes), room_pages = grows ? pages : 0;
    struct page_need need = {pages, align_pages, room_pages, .from_top = true};
    if (is_tight != NULL) need.block_bytes = size_bytes;
    struct page_range range = pool_claim_for(need);
    if (range.superslab == NULL && grows) {
        need.room_pages = 0;
        range = pool_claim_for(need);
    }
    if (is_tight != NULL) *is_tight = range.is_tight;
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

void *large_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool *zero)
{
    return run_alloc(align_bytes, size_bytes, grows, zero, NULL);
}

void *large_alloc_any(size_t align_bytes, size_t size_bytes, bool grows, bool *zero, bool *is_run)
{
    *is_run = size_bytes <= RUN_BYTES_MAX && align_bytes <= RUN_BYTES_MAX;
    if (!*is_run) return huge_alloc(align_bytes, size_bytes, zero);
    bool is_tight;
    void *start = run_alloc(align_bytes, size_bytes, grows, zero, &is_tight);
    if (HAK_LIKELY(!is_tight)) return start;
    start = huge_alloc_exact(align_bytes, size_bytes, zero);
    *is_run = start == NULL;
    /* The system may have refused one mapping more, and not the address space. */
    return start != NULL ? start : large_alloc(align_bytes, size_bytes, grows, zero);
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
