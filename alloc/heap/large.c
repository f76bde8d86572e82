/* large.c: see large.h. */
#include "heap/large.h"

#include <string.h>

#include "base/bits.h"
#include "heap/huge.h"
#include "heap/tick.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "profile/profile.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/kept.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/round.h"

static uint32_t pages_for(size_t size_bytes)
{
    uint32_t pages = (uint32_t)(round_up(size_bytes, PAGE_BYTES) / PAGE_BYTES);
    return pages > 0 ? pages : 1; /* a size of 0, with an alignment above the small blocks' */
}

/* --- what reads as zero ----------------------------------------------------------------------------------- */

/* A run's last page is seldom used to its end. hollow_pages of that page says which of the system's pages behind the block
 * read as zero, if its bit in partial_pages is set (slabs leave such pages too). So calloc clears the block and no more, and
 * the rest of a page that was never touched stays so. This holds after the run is freed, too, until the page is claimed
 * again. used_count of a run is 1 once the program may use all of it. */

static uint16_t os_pages_behind(size_t used_bytes)
{
    uint32_t first = (uint32_t)((used_bytes + os_page_bytes() - 1) / os_page_bytes());
    return (uint16_t)(~0u << first);
}

static void expose(struct slab *run, bool is_exposed)
{
    /* relaxed: threads that share the block may ask for its size at the same time; free comes after them. */
    atomic_store_explicit(&run->used_count, is_exposed, memory_order_relaxed);
}

static void page_clear(char *page, uint16_t zero)
{
    size_t os_bytes = os_page_bytes();
    for (size_t at = 0; at < PAGE_BYTES; at += os_bytes) {
        size_t end = at;
        while (end < PAGE_BYTES && (zero >> end / os_bytes & 1) == 0) end += os_bytes;
        if (end == at) continue;
        if (ASAN) sanitizer_open(page + at, end - at);
        memset(page + at, 0, end - at);
        at = end;
    }
}

static void last_page_set(struct slab *run, uint16_t zero)
{
    uint32_t last = run->page_count - 1u;
    if (zero != 0) run[last].hollow_pages = zero;
    superslab_partial_set(superslab_of(run), run->page_index, run->page_count,
                          zero != 0 ? 1ull << (run->page_index + last) : 0);
}

/* Begins a run of claimed pages for a block of size_bytes. */
static void run_begin(const struct page_range *range, struct slab *run, char *start, size_t size_bytes, bool zeroed)
{
    uint32_t last = run->page_count - 1u;
    expose(run, VALIDATE); /* frames take all of a block */
    if (HAK_LIKELY(!zeroed && (range->dirty >> last & 1) != 0 && range->partial == 0)) return;
    uint16_t zero = page_zero_bits(range, run, last);
    if (zeroed && range->dirty != 0)
        for (uint32_t i = 0; i <= last; i++) page_clear(start + (size_t)i * PAGE_BYTES, page_zero_bits(range, run, i));
    if (zeroed) zero = (uint16_t)~0u;
    last_page_set(run, zero & os_pages_behind(size_bytes - (size_t)last * PAGE_BYTES));
}

void large_end(struct slab *run)
{
    if (atomic_load_explicit(&run->used_count, memory_order_relaxed) != 0) last_page_set(run, 0);
}

/* --- alloc and free ----------------------------------------------------------------------------------------- */

/* why: the block may have a mapping of its own, and if NULL is returned, this says whether that may do; NULL: it must be a run. */
HAK_INLINE void *run_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed, struct page_range *why)
{
    uint32_t pages = pages_for(size_bytes);
    uint32_t align_pages = pages_for(align_bytes), room_pages = grows ? pages : 0;
    struct page_need need = {pages, align_pages, room_pages, .from_top = true};
    if (why != NULL) need.block_bytes = size_bytes;
    struct page_range range = pool_claim_for(need);
    if (range.superslab == NULL && grows) {
        need.room_pages = 0;
        range = pool_claim_for(need);
    }
    if (why != NULL) *why = range;
    if (range.superslab == NULL) return NULL;
    struct slab *run = &range.superslab->slabs[range.first];
    run->page_count = (uint8_t)pages;
    run->page_index = (uint8_t)range.first;
    run->page_offset = 0;
    char *start = superslab_page_start(range.superslab, run);
    pagemap_tag_set(start, 1, CLASS_RUN);
    if (VALIDATE) validate_alloc_run(start);
    run_begin(&range, run, start, size_bytes, zeroed);
    return start;
}

void *large_alloc(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed)
{
    return run_alloc(align_bytes, size_bytes, grows, zeroed, NULL);
}

void *large_alloc_any(size_t align_bytes, size_t size_bytes, bool grows, bool zeroed)
{
    if (size_bytes > RUN_BYTES_MAX || align_bytes > RUN_BYTES_MAX) return huge_alloc(align_bytes, size_bytes, zeroed);
    struct page_range why;
    void *start = run_alloc(align_bytes, size_bytes, grows, zeroed, &why);
    if (HAK_LIKELY(start != NULL)) return start;
    if (why.is_tight || why.is_refused) start = huge_alloc_exact(align_bytes, size_bytes, zeroed);
    /* The system may have refused one mapping more, and not the address space. */
    if (start == NULL && why.is_tight) start = large_alloc(align_bytes, size_bytes, grows, zeroed);
    return start;
}

/* Threads share lanes by the ids of their heaps. A thread that takes large blocks only holds no heap, and chooses a lane when
 * it frees the first: its neighbour chooses the next. */
static uint32_t lane_of(const struct tcache *tcache)
{
    uint32_t id = tcache->tag >> TAG_OWNER_SHIFT;
    return HAK_LIKELY(id != 0) ? id : tcache->lane;
}

static HAK_COLD void lane_choose(struct tcache *tcache)
{
    static _Atomic(uint32_t) chosen; /* relaxed: it orders nothing */
    tcache->lane = (uint8_t)(KEPT_LANES - atomic_fetch_add_explicit(&chosen, 1, memory_order_relaxed) % KEPT_LANES);
}

void *large_take_kept(size_t size_bytes, struct tcache *tcache)
{
    /* The profile draws samples, and a heap with much idle memory gives some back, in the caller. */
    if (size_bytes > RUN_BYTES_MAX || profile_may_have() || tcache->watches_idle) return NULL;
    uint32_t lane = lane_of(tcache);
    if (HAK_UNLIKELY(kept_tick_is_due(lane))) {
        round_call_begins();
        tick(tcache);
        round_call_ends();
    }
    uint32_t pages = pages_for(size_bytes), last = pages - 1;
    struct slab *run = kept_take(lane, pages);
    if (run == NULL) return NULL;
    struct superslab *superslab = superslab_of(run);
    char *start = superslab_page_start(superslab, run);
    /* relaxed: the bits of our pages are ours. */
    uint64_t partial = atomic_load_explicit(&superslab->partial_pages, memory_order_relaxed);
    if ((partial >> (run->page_index + last) & 1) != 0)
        last_page_set(run, run[last].hollow_pages & os_pages_behind(size_bytes - (size_t)last * PAGE_BYTES));
    expose(run, VALIDATE);
    pagemap_tag_set(start, 1, CLASS_RUN);
    if (VALIDATE) validate_alloc_run(start);
    return start;
}

/* NULL: another thread is freeing it too. */
static struct slab *run_end(void *pointer)
{
    if (HAK_UNLIKELY(!pagemap_tag_take(pointer, CLASS_RUN))) return NULL;
    struct slab *run = slab_of(pointer);
    large_end(run);
    return run;
}

static void run_free(struct slab *run)
{
    if (run != NULL) pool_free(superslab_of(run), run->page_index, run->page_count, 0);
}

void large_free(void *pointer)
{
    run_free(run_end(pointer));
}

void large_keep(void *pointer, struct tcache *tcache)
{
    if (HAK_UNLIKELY(tcache->heap == NULL && tcache->lane == 0)) lane_choose(tcache);
    if (HAK_UNLIKELY(profile_may_have())) profile_large_freed(pointer);
    struct slab *run = run_end(pointer);
    if (HAK_LIKELY(run != NULL)) run_free(kept_put(lane_of(tcache), run));
}

size_t large_usable_size(const void *pointer)
{
    struct slab *run = slab_of(pointer);
    expose(run, true);
    return (size_t)run->page_count * PAGE_BYTES;
}

/* A caller has asked for the size before, so the block is exposed, and large_end clears the bits of pages that are added. */
bool large_resize(void *pointer, size_t size_bytes)
{
    struct slab *run = slab_of(pointer);
    uint32_t old_pages = run->page_count;
    uint32_t new_pages = pages_for(size_bytes);
    last_page_set(run, 0);
    if (new_pages < old_pages) {
        run->page_count = (uint8_t)new_pages;
        pool_free(superslab_of(run), run->page_index + new_pages, old_pages - new_pages, 0);
    } else if (new_pages > old_pages) {
        if (!pool_extend(superslab_of(run), run->page_index, old_pages, new_pages)) return false;
        run->page_count = (uint8_t)new_pages;
    }
    return true;
}
