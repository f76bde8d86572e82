/* inspect.c: see inspect.h. */
#include "debug/inspect.h"

#include <stddef.h>

#include "base/bits.h"
#include "base/sizeclass.h"
#include "cache/thread.h"
#include "heap/huge.h"
#include "heap/own_inside.h"
#include "os/os.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/kept.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
#include "superslab/purse.h"

/* What the counters of the heap must say. */
struct counted {
    struct hak_inspect_report *report;
    const struct owner *owner; /* whose bytes are counted */
    size_t superslabs, claimed_pages, dirty_pages, run_pages;
    size_t used_bytes, carved_bytes;
    size_t used_blocks[CLASS_COUNT];
};

static void broken(struct hak_inspect_report *report, const char *law, const void *address)
{
    if (report->broken_law != NULL) return;
    report->broken_law = law;
    report->address = address;
}

/* The length of a slab's free list. Stops above the capacity, since such a list has a cycle. */
static uint32_t linked_count(const struct slab *slab)
{
    uint32_t count = 0;
    for (const struct block *block = slab->free; block != NULL && count <= slab->capacity;
         block = link_get(&block->next))
        count++;
    return count;
}

/* By the descriptor's place, since its page_index may be broken. */
static uint32_t marked_count(const struct superslab *superslab, const struct slab *slab)
{
    const uint64_t *marks = superslab->marks[slab - superslab->slabs];
    uint32_t count = 0;
    for (uint32_t word = 0; word < sizeof(mark_words) / sizeof *marks; word++)
        count += (uint32_t)__builtin_popcountll(marks[word]);
    return count;
}

static void check_slab(struct hak_inspect_report *report, struct superslab *superslab, struct slab *slab)
{
    char *start = superslab_page_start(superslab, slab);
    uint32_t used = atomic_load_explicit(&slab->used_count, memory_order_relaxed);
    uint32_t linked = linked_count(slab), freed = linked + marked_count(superslab, slab);
    report->slab_count++;
    report->used_blocks += used;
    if (used == 0) report->empty_slab_count++;
    if (linked != slab->linked_count || used + freed != slab->carved_count || slab->carved_count > slab->capacity)
        broken(report, "law 1: used + free = carved <= capacity", start);
    if (slab->full == (freed > 0 || slab->carved_count < slab->capacity))
        broken(report, "law 1: listed exactly when it can give blocks", start);
    if (remote_is_queued(slab)) report->pending_slab_count++;
    report->pending_blocks += remote_count(slab);
    if (remote_is_queued(slab) != (remote_count(slab) > 0) || remote_count(slab) > used)
        broken(report, "law 2: blocks are pending on a queued slab, and in use", start);
    uint16_t hollow_pages = 0;
    for (uint32_t i = 0; i < slab->page_count; i++) hollow_pages |= slab[i].hollow_pages;
    if (slab->hollow != (hollow_pages != 0) || (slab->hollow && slab->carved_count == slab->capacity))
        broken(report, "law 1: a hollow slab has blocks to carve where its pages' bits say", start);
    if (slab->page_index != slab - superslab->slabs) broken(report, "law 6: the descriptor knows its page", start);
    uint32_t live = 0;
    for (uint32_t i = 0; i < slab->page_count; i++) {
        uint32_t tag = slab->owner->tag | slab->class_index;
        if (slab[i].page_offset != i || pagemap_tag(start + (size_t)i * PAGE_BYTES) != tag)
            broken(report, "law 6: the page map agrees with the slab", start);
        if (VALIDATE) live += validate_live_count(superslab, slab->page_index + i);
    }
    report->live_blocks += live;
    if (live > used) broken(report, "law 1: live blocks are in use", start);
}

/* Looks at the page's first word alone: the blocks of a page that was used rarely leave it zero. AddressSanitizer and
 * MemorySanitizer let nobody read a free page. */
static bool is_zero(const char *page)
{
    return ASAN || MSAN || *(const uint64_t *)(const void *)page == 0;
}

/* A free page with memory, whose descriptor says which of the system's pages read as zero. */
static void check_partial(const struct slab *page, const char *start, struct hak_inspect_report *report)
{
    const size_t os_bytes = os_page_bytes();
    for (size_t at = 0, i = 0; at < PAGE_BYTES; at += os_bytes, i++)
        if ((page->hollow_pages >> i & 1) != 0 && !is_zero(start + at))
            broken(report, "law 7: a hollow page of a free one reads as zero", start + at);
}

static void check_superslab(struct superslab *superslab, void *context)
{
    struct counted *counted = context;
    struct hak_inspect_report *report = counted->report;
    /* relaxed: the heap is at rest, by the caller's order. */
    uint64_t free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed);
    uint64_t dirty_pages = atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
    uint64_t partial_pages = atomic_load_explicit(&superslab->partial_pages, memory_order_relaxed);
    uint64_t missing = atomic_load_explicit(&superslab->missing_pages, memory_order_relaxed);
    uint64_t accounted = free_pages | missing;
    counted->superslabs++;
    counted->claimed_pages += (size_t)__builtin_popcountll(~accounted);
    counted->dirty_pages += (size_t)__builtin_popcountll(free_pages & dirty_pages);
    for (uint32_t page = 0; page < SUPERSLAB_PAGES; page++) {
        struct slab *slab = &superslab->slabs[page];
        char *start = superslab_page_start(superslab, slab);
        uint32_t tag = pagemap_tag(start);
        if (free_pages >> page & 1) {
            if (tag != 0) broken(report, "law 6: a free page has no tag", start);
            if ((dirty_pages >> page & 1) == 0 && !is_zero(start))
                broken(report, "law 7: a free page that is not dirty reads as zero", start);
            if ((dirty_pages & partial_pages) >> page & 1) check_partial(slab, start, report);
            continue;
        }
        if (tag == CLASS_OWN_DEAD) accounted |= 1ull << page;
        if (accounted >> page & 1) continue; /* such a page, or inside the slab or run before it */
        if (tag == 0) {
            broken(report, "law 6: a page in use has a tag", start);
            continue;
        }
        accounted |= bits_range(page, slab->page_count);
        if (tag_is_run(tag)) {
            report->run_count++;
            counted->run_pages += slab->page_count;
            if (VALIDATE) report->live_blocks += validate_live_count(superslab, page);
        } else {
            check_slab(report, superslab, slab);
        }
    }
    if (accounted != ~0ull) broken(report, "law 6: every page is accounted for", superslab_base(superslab));
}

/* The number of slabs on an owner's queue; more than limit if the queue has a cycle. */
static uint64_t check_queue(struct hak_inspect_report *report, const struct owner *owner, uint64_t limit)
{
    uint64_t count = 0;
    const struct slab *slab = atomic_load_explicit(&owner->pending, memory_order_relaxed);
    if (slab != NULL && owner_is_orphan(owner)) broken(report, "law 2: an orphan's queue is empty", owner);
    for (; slab != NULL && count <= limit; slab = slab->next_pending) {
        if (slab->owner != owner || !remote_is_queued(slab))
            broken(report, "law 2: a queue holds its owner's slabs with pending blocks", slab);
        count++;
    }
    return count;
}

static void check_owner(struct hak_inspect_report *report, const struct owner *owner)
{
    for (uint32_t class_index = 0; class_index < CLASS_COUNT; class_index++) {
        const struct slab *first = owner->slabs[class_index];
        const struct slab *slab = first;
        while (slab != NULL) {
            if (slab->owner != owner || slab->class_index != class_index || slab->full || slab->next->prev != slab) {
                broken(report, "law 4: a list holds its owner's slabs of its class", slab);
                break;
            }
            const bool is_last = slab->next == first;
            if (!is_last && atomic_load_explicit(&slab->used_count, memory_order_relaxed) == 0)
                broken(report, "law 4: only the last slab of a list has no block in use", slab);
            slab = is_last ? NULL : slab->next;
        }
    }
}

static void count_bytes(struct superslab *superslab, void *context)
{
    struct counted *counted = context;
    uint64_t free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed);
    for (uint32_t page = 0; page < SUPERSLAB_PAGES; page++) {
        const struct slab *slab = &superslab->slabs[page];
        uint32_t class_index = tag_slab_class(pagemap_tag(superslab_page_start(superslab, slab)));
        if ((free_pages >> page & 1) != 0 || class_index == CLASS_EMPTY || slab->page_offset != 0 ||
            slab->owner != counted->owner)
            continue;
        size_t block_bytes = sizeclass_bytes(class_index);
        uint32_t used_count = atomic_load_explicit(&slab->used_count, memory_order_relaxed);
        counted->used_bytes += used_count * block_bytes;
        counted->used_blocks[class_index] += used_count;
        counted->carved_bytes += slab->carved_count * block_bytes;
    }
}

/* Law 9, of the slabs of one owner. */
static void check_bytes(struct hak_inspect_report *report, const struct owner *owner)
{
    struct counted counted = {.owner = owner};
    pool_for_each(count_bytes, &counted);
    if (counted.used_bytes != owner_used_bytes(owner)) broken(report, "law 9: bytes in use of an owner", owner);
    if (counted.carved_bytes != atomic_load_explicit(&owner->carved_bytes, memory_order_relaxed))
        broken(report, "law 9: carved bytes of an owner", owner);
    if (owner->tag == CLASS_OWN)
        return; /* an arena has no bins to bound, and a forked child does not mend this count */
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        if (counted.used_blocks[class_index] != owner_used_blocks(owner, class_index))
            broken(report, "law 9: blocks in use of an owner's class", owner);
}

/* Law 10. */
static void check_purse(struct hak_inspect_report *report)
{
    size_t bought_bytes = 0;
    for (struct heap *heap = NULL; (heap = heap_next(heap)) != NULL;) {
        size_t paid_bytes = 0;
        for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
            paid_bytes += (size_t)heap->parking[class_index].paid * sizeclass_bytes(class_index);
        if (heap->owner.bought_bytes + heap->rested_bytes != paid_bytes)
            broken(report, "law 10: a heap has bought what its classes have paid for", heap);
        bought_bytes += heap->owner.bought_bytes;
    }
    if (bought_bytes != purse_bought_bytes()) broken(report, "law 10: the purse has lent what heaps have bought", NULL);
}

/* Law 9, of the large blocks and the bins of a heap of the program's own. A list with a circle exceeds its sum or count. */
static void check_own_bytes(struct hak_inspect_report *report, const struct hak_heap *heap)
{
    size_t large_bytes = 0;
    const struct slab *first = heap->runs;
    for (const struct slab *run = first; run != NULL && large_bytes <= heap->large_bytes;
         run = run->next == first ? NULL : run->next)
        large_bytes += (size_t)run->page_count * PAGE_BYTES;
    for (const struct huge_link *huge = heap->huges; huge != NULL && large_bytes <= heap->large_bytes;
         huge = huge->next)
        large_bytes += huge_usable_of(huge);
    if (large_bytes != heap->large_bytes) broken(report, "law 9: bytes of large blocks of a heap", heap);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        uint32_t count = 0;
        const struct own_bin *bin = &heap->bins[class_index];
        for (const struct block *block = bin->head; block != NULL && count <= bin->count;
             block = link_get(&block->next))
            count++;
        if (count != bin->count) broken(report, "law 9: blocks in a bin of a heap", heap);
    }
}

static void check_own(struct hak_inspect_report *report, const struct hak_heap *heap)
{
    check_owner(report, &heap->owner);
    check_bytes(report, &heap->owner);
    check_own_bytes(report, heap);
    if (atomic_load_explicit(&heap->posted, memory_order_relaxed) != NULL)
        broken(report, "law 8: at rest nothing is posted", heap);
    size_t slab_bytes = 0;
    const struct slab *slab = heap->full;
    while (slab != NULL) {
        if (slab->owner != &heap->owner || !slab->full || slab->next->prev != slab) {
            broken(report, "law 8: `full` holds the heap's slabs that can give no block", slab);
            return;
        }
        slab_bytes += (size_t)slab->page_count * PAGE_BYTES;
        slab = slab->next == heap->full ? NULL : slab->next;
    }
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        const struct slab *first = heap->owner.slabs[class_index];
        bool has_free = true;
        for (slab = first; slab != NULL; slab = slab->next == first ? NULL : slab->next) {
            slab_bytes += (size_t)slab->page_count * PAGE_BYTES;
            const bool is_empty = atomic_load_explicit(&slab->used_count, memory_order_relaxed) == 0;
            if (!has_free && !is_empty && slab_has_free(slab))
                broken(report, "law 8: in a list of a heap the slabs that have a free block come first", slab);
            has_free = slab_has_free(slab);
        }
    }
    if (slab_bytes != heap->slab_bytes) broken(report, "law 8: each slab of a heap is in a list", heap);
}

/* Law 9, of the pages, and of the orphans. */
static void check_counts(struct hak_inspect_report *report, const struct counted *counted)
{
    struct pool_figures pool = pool_figures();
    if (counted->superslabs != pool.superslab_count) broken(report, "law 9: superslabs", NULL);
    if (counted->claimed_pages != pool.claimed_pages) broken(report, "law 9: pages in use", NULL);
    if (counted->dirty_pages != pool.dirty_pages) broken(report, "law 9: free dirty pages", NULL);
    bool are_runs_known = !VALIDATE || own_dead_bytes() == 0; /* of destroyed heaps nobody knows what was a run */
    if (are_runs_known && counted->run_pages != purge_run_pages()) broken(report, "law 9: pages of runs", NULL);
    if (thread_count_warm() != thread_warm_count()) broken(report, "law 9: warm orphans", NULL);
}

bool hak_inspect(struct hak_inspect_report *report)
{
    *report = (struct hak_inspect_report){.broken_law = NULL};
    struct counted counted = {.report = report};
    thread_settle_left();
    own_mend_all();
    kept_give_back();
    pool_for_each(check_superslab, &counted);
    check_counts(report, &counted);
    uint64_t queued_count = 0;
    for (struct owner *owner = NULL; (owner = owner_next(owner)) != NULL;) {
        check_owner(report, owner);
        check_bytes(report, owner);
        queued_count += check_queue(report, owner, report->pending_slab_count);
    }
    check_purse(report);
    for (const struct hak_heap *heap = own_first(); heap != NULL; heap = heap->next) check_own(report, heap);
    if (report->pending_slab_count != 0) broken(report, "law 2: at rest nothing is pending", NULL);
    if (queued_count != report->pending_slab_count)
        broken(report, "law 2: a slab with pending blocks is on a queue, once", NULL);
    return report->broken_law == NULL;
}
