/* slab.c: see slab.h. */
#include "slab/slab.h"

#include <string.h>

#include "base/sync_point.h"
#include "report/broken.h"
#include "slab/hollow.h"
#include "slab/slab_inside.h"
#include "slab/take.h"
#include "slab/trim.h"
#include "slab/validate.h"
#include "superslab/pool.h"

enum { WORD_BITS = 64 };

static void used_subtract(struct owner *owner, uint32_t class_index, uint32_t count)
{
    owner->blocks[class_index].room += count;
    owner_used_bytes_set(owner, owner_used_bytes(owner) - (size_t)count * sizeclass_bytes(class_index));
}

/* --- the owner's list -------------------------------------------------------------------------- */

void slab_list_first(struct slab *slab)
{
    list_remove(slab);
    list_insert(slab, false);
}

void slab_list_back(struct slab *slab)
{
    if (slab->next == slab) return;
    list_remove(slab);
    struct slab **first = &slab->owner->slabs[slab->class_index], *last = (*first)->prev;
    if (used_get(last) != 0) {
        list_insert(slab, true);
        return;
    }
    link_before(slab, last);
    if (*first == last) *first = slab;
}

/* --- make and release --------------------------------------------------------------------------- */

static uint16_t capacity(const struct superslab *superslab, const struct slab *slab)
{
    char *end = superslab_page_start(superslab, slab) + (size_t)slab->page_count * PAGE_BYTES;
    return (uint16_t)((size_t)(end - slab_start(superslab, slab)) / sizeclass_bytes(slab->class_index));
}

struct slab *slab_make(struct owner *owner, uint32_t class_index)
{
    uint32_t pages = sizeclass_slab_pages(class_index);
    struct page_range range = pool_claim(pages, 1, false);
    if (range.superslab == NULL) return NULL;

    owner_count_event(owner, OWNER_EVENT_slabs_made);
    if (HAK_UNLIKELY(owner->trimmed_pages_released != 0)) slab_trim_may_be_wanted(owner, pages);
    struct slab *slab = &range.superslab->slabs[range.first];
    slab->free = NULL;
    used_set(slab, 0);
    slab->carved_count = 0;
    slab->full = true; /* it is in no list yet */
    slab->hollow = slab->trimmed = slab->was_trimmed = false;
    slab->linked_count = 0;
    slab->class_index = (uint8_t)class_index;
    slab->page_count = (uint8_t)pages;
    slab->page_index = (uint8_t)range.first;
    slab->capacity = capacity(range.superslab, slab);
    slab->carve_start = slab_carve_start(slab) & CARVE_START_MASK;
    slab->owner = owner;
    /* relaxed: the program publishes it when it hands a block of the slab to another thread. */
    atomic_store_explicit(&slab->remote, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < pages; i++) slab[i].page_offset = (uint8_t)i;
    for (uint32_t i = 0; range.dirty == 0 && i < pages; i++) slab[i].hollow_pages = 0;
    slab->fresh = range.dirty == 0;
    /* In the debug-validation build frames are laid out as blocks are carved. */
    if (range.dirty != 0) slab_begin_dirty(slab, &range, !VALIDATE && !owner->has_limit);
    pagemap_tag_set(superslab_page_start(range.superslab, slab), pages, owner->tag | class_index);
    list_insert(slab, false);
    return slab;
}

/* The slab ends: a slab that begins at its first page later finds no bit set. */
static void marks_clear(struct slab *slab)
{
    uint32_t free_count = slab->carved_count - used_get(slab);
    if (free_count != slab->linked_count) memset(slab_marks(slab), 0, sizeof(mark_words));
}

static void slab_ends(struct slab *slab)
{
    marks_clear(slab);
    if (slab->fresh && (slab->hollow || slab->carved_count != slab->capacity)) slab_end_untouched(slab);
}

static void slab_release(struct slab *slab)
{
    struct superslab *superslab = superslab_of(slab);
    list_remove(slab);
    if (slab->was_trimmed) slab->owner->trimmed_pages_released += slab->page_count;
    slab_ends(slab);
    owner_count_event(slab->owner, OWNER_EVENT_slabs_released);
    owner_carved_bytes_add(slab->owner, -(size_t)slab->carved_count * sizeclass_bytes(slab->class_index));
    pagemap_tag_set(superslab_page_start(superslab, slab), slab->page_count, 0);
    sync_point("slab_release");
    pool_free(superslab, slab->page_index, slab->page_count, slab_fill_eighths(slab));
}

void slab_discard(struct slab *slab)
{
    struct owner *owner = slab->owner;
    if (!slab->full) list_remove(slab);
    slab_ends(slab);
    owner_count_event(owner, OWNER_EVENT_slabs_released);
    used_subtract(owner, slab->class_index, used_get(slab));
    owner_carved_bytes_add(owner, -(size_t)slab->carved_count * sizeclass_bytes(slab->class_index));
}

/* More blocks came back than were in use. */
static HAK_COLD HAK_NORETURN void returned_too_many(const struct slab *slab)
{
    broken(BROKEN_returned, slab->class_index, slab);
}

/* The slab has no block in use any more. One such slab of a class with a limit is kept, last in the list, so that a
 * loop that empties its slab again and again stays cheap. An orphan that may stay one keeps none. */
static void slab_emptied(struct slab *slab)
{
    struct owner *owner = slab->owner;
    struct slab *last = owner->slabs[slab->class_index]->prev;
    bool is_kept = owner->keeps_empty && owner->blocks[slab->class_index].limit != 0;
    if (!is_kept || (last != slab && used_get(last) == 0)) {
        slab_release(slab);
    } else if (last != slab) {
        list_remove(slab);
        list_insert(slab, true);
    }
}

void slab_release_empty_of(struct owner *owner, uint32_t class_index)
{
    struct slab *first = owner->slabs[class_index];
    if (first != NULL && used_get(first->prev) == 0) slab_release(first->prev);
}

void slab_release_empty(struct owner *owner)
{
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) slab_release_empty_of(owner, class_index);
}

struct each {
    slab_visit_fn *visit;
    void *context;
};

static void visit_slabs(struct superslab *superslab, void *context)
{
    const struct each *each = context;
    const char *base = superslab_base(superslab);
    if (base == NULL) return; /* released since it was found */
    uint32_t page = 0;
    while (page < SUPERSLAB_PAGES) {
        uint32_t tag = pagemap_tag(base + (size_t)page * PAGE_BYTES);
        uint32_t class_index = tag_slab_class(tag);
        if (class_index == CLASS_EMPTY) { /* the page is free or belongs to a run */
            page++;
            continue;
        }
        each->visit(&superslab->slabs[page], class_index, each->context);
        page += sizeclass_slab_pages(class_index);
    }
}

void slab_for_each(slab_visit_fn *visit, void *context)
{
    struct each each = {visit, context};
    pool_for_each(visit_slabs, &each);
}

/* --- blocks ------------------------------------------------------------------------------------- */

/* A slab that was full, that a trim has looked at, or that has no block in use any more. */
static HAK_NOINLINE void returned_rare(struct slab *slab, int32_t used_count)
{
    slab->trimmed = false;
    if (slab->full) list_insert(slab, false);
    if (used_count == 0) slab_emptied(slab);
    if (used_count < 0) returned_too_many(slab);
}

/* Blocks of the slab are free again, and used_count are left in use. The owner's bytes in use are the caller's to count. */
HAK_INLINE void slab_returned(struct slab *slab, int32_t used_count)
{
    if (VALIDATE) validate_returned(slab, used_get(slab) - (uint32_t)used_count);
    used_set(slab, (uint32_t)used_count);
    /* One test for all cases, since every freed block comes here. */
    if (HAK_UNLIKELY(used_count <= 0 || slab->full || slab->trimmed)) returned_rare(slab, used_count);
}

void slab_give_back(struct slab *slab, struct block *block)
{
    const char *start = superslab_page_start(superslab_of(slab), slab);
    uint32_t bit = (uint32_t)((const char *)block - start) / sizeclass_bytes(slab->class_index);
    slab_marks(slab)[bit / WORD_BITS] |= 1ull << bit % WORD_BITS;
    used_subtract(slab->owner, slab->class_index, 1);
    slab_returned(slab, (int32_t)used_get(slab) - 1);
}

void slab_give_back_list(struct slab *slab, struct block *head, struct block *tail, uint32_t count)
{
    if (slab->free != NULL) link_set(&tail->next, slab->free);
    slab->free = head;
    slab->linked_count = (slab->linked_count + count) & LINKED_COUNT_MASK;
    used_subtract(slab->owner, slab->class_index, count);
    slab_returned(slab, (int32_t)(used_get(slab) - count));
}

/* Each freed block that finds no place in a cache passes here, often as the only one of its slab. So what the class has in
 * common is outside the loops, and the offset in the slab serves twice: it tells the bit, and whether the next block has the
 * same slab. */
uint32_t slab_give_back_each(struct block *list)
{
    if (list == NULL) return 0;
    const struct slab *of_first = slab_of(list);
    struct owner *owner = of_first->owner;
    const uint32_t class_index = of_first->class_index, pages = sizeclass_slab_pages(class_index);
    const uint64_t inverse = sizeclass_inverse(class_index);
    const uintptr_t slab_bytes = (uintptr_t)pages * PAGE_BYTES;
    uint32_t given_back = 0;
    do {
        struct superslab *superslab = pagemap_descriptor_of(list);
        uintptr_t index = (uintptr_t)list >> PAGE_SHIFT, start = (uintptr_t)list & -(uintptr_t)PAGE_BYTES;
        index %= SUPERSLAB_PAGES;
        if (pages > 1) {
            const uint32_t behind = superslab->slabs[index].page_offset;
            index -= behind;
            start -= (uintptr_t)behind * PAGE_BYTES;
        }
        struct slab *slab = &superslab->slabs[index];
        uint64_t *marks = superslab->marks[index];
        int32_t used_count = (int32_t)used_get(slab);
        uintptr_t offset = (uintptr_t)list - start;
        do {
            list = link_get(&list->next);
            const uintptr_t bit = offset * inverse >> INVERSE_SHIFT;
            marks[bit / WORD_BITS] |= 1ull << bit % WORD_BITS;
            given_back++;
            offset = (uintptr_t)list - start;
            used_count--;
            __asm__(
                ""
                : "+r"(used_count)); /* else the compiler reckons with its range, which costs an instruction a block */
        } while (used_count > 0 && offset < slab_bytes);
        slab_returned(slab, used_count);
    } while (list != NULL);
    used_subtract(owner, class_index, given_back);
    return given_back;
}

/* --- defragmentation ------------------------------------------------------------------------------ */

/* Distributes the slabs over RANKS lists by how full they are, and joins these. Each has a block in use: slab_release_empty
 * has just run. */
struct slab_sums slab_sort(struct owner *owner, uint32_t class_index)
{
    enum { RANKS = 32 };
    struct slab *ranks[RANKS] = {NULL};
    struct slab_sums sums = {0, 0};
    for (struct slab *slab; (slab = owner->slabs[class_index]) != NULL;) {
        list_remove(slab);
        uint32_t used_count = used_get(slab);
        sums.used_count += used_count;
        sums.capacity += slab->capacity;
        uint32_t rank = (RANKS - 1) - used_count * (RANKS - 1) / slab->capacity;
        slab->next = ranks[rank];
        ranks[rank] = slab;
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (struct slab *slab = ranks[rank], *next; slab != NULL; slab = next) {
            next = slab->next;
            list_insert(slab, true);
        }
    }
    return sums;
}
