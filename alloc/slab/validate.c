/* validate.c: see validate.h. Not a part of the release library. */
#include "slab/validate.h"

#include "report/failfast.h"
#include "report/settings.h"
#include "slab/slab.h"

enum { WORD_BITS = 64, PAGE_WORDS = PAGE_BYTES / GRANULE_BYTES / WORD_BITS };

static uint32_t granule_of(const void *address)
{
    return (uint32_t)((uintptr_t)address % SUPERSLAB_BYTES / GRANULE_BYTES);
}

/* relaxed, both: only the thread that has a block changes its bit, and the hand-over of the block orders these changes.
 * Two threads that change one bit are the very error that is looked for, and the atomic change finds it in either
 * order. */
static bool live_set(struct superslab *superslab, const void *address)
{
    uint32_t granule = granule_of(address);
    uint64_t bit = 1ull << granule % WORD_BITS;
    return (atomic_fetch_or_explicit(&superslab->live_bits[granule / WORD_BITS], bit, memory_order_relaxed) & bit) == 0;
}

static bool live_clear(struct superslab *superslab, const void *address)
{
    uint32_t granule = granule_of(address);
    uint64_t bit = 1ull << granule % WORD_BITS;
    return (atomic_fetch_and_explicit(&superslab->live_bits[granule / WORD_BITS], ~bit, memory_order_relaxed) & bit) !=
           0;
}

/* Returns the tag of the head. link: the word that holds the head; NULL: not known. */
static uint32_t check_list(const struct block *head, uint32_t class_index, const void *link)
{
    if ((uintptr_t)head % GRANULE_BYTES != 0)
        failfast_link(FAILFAST_head_alignment, head, "a free list's head, not a multiple of 16", link);
    uint32_t tag = pagemap_tag_checked(head);
    if (tag_slab_class(tag) != class_index)
        failfast_link(FAILFAST_next_link_range, head, "a free list leads out of its class", link);
    return tag;
}

void validate_list(const struct block *head, uint32_t class_index)
{
    if (head != NULL && failfast_level() != LEVEL_NONE) check_list(head, class_index, NULL);
}

static uint32_t block_index(const struct slab *slab, const char *slab_start, const void *address, uint32_t *rest)
{
    uint32_t offset = (uint32_t)((const char *)address - slab_start);
    uint32_t block_bytes = sizeclass_bytes(slab->class_index);
    *rest = offset % block_bytes;
    return offset / block_bytes;
}

void validate_alloc(const struct block *block, uint32_t class_index, uint32_t owner_tag)
{
    if (failfast_level() == LEVEL_NONE) return;
    if (check_list(block, class_index, NULL) != (owner_tag | class_index))
        failfast(FAILFAST_next_link_range, block, "a bin holds a block of another heap");
    const struct block *next = link_get(&block->next);
    /* A page has one tag. */
    const bool is_beside = (((uintptr_t)next ^ (uintptr_t)block) & ~(uintptr_t)(PAGE_BYTES - GRANULE_BYTES)) == 0;
    if (next != NULL && !is_beside) check_list(next, class_index, &block->next);
    struct superslab *superslab = pagemap_descriptor_of(block);
    struct slab *slab = superslab_slab_of(superslab, block);
    uint32_t rest;
    uint32_t index = block_index(slab, slab_start(superslab, slab), block, &rest);
    if (rest != 0 || index >= slab->capacity)
        failfast(FAILFAST_next_link_range, block, "a bin holds a pointer between two blocks");
    if (!live_set(superslab, block)) failfast(FAILFAST_handed_out_twice, block, NULL);
}

void validate_alloc_run(const void *start)
{
    if (failfast_level() == LEVEL_NONE) return;
    if (!live_set(pagemap_descriptor(start), start)) failfast(FAILFAST_handed_out_twice, start, NULL);
}

bool validate_is_live(const struct superslab *superslab, const void *start)
{
    uint32_t granule = granule_of(start);
    uint64_t word = atomic_load_explicit(&superslab->live_bits[granule / WORD_BITS], memory_order_relaxed);
    return (word >> granule % WORD_BITS & 1) != 0;
}

/* Whether a block may start here; reports it if not. *superslab is the block's superslab, NULL for a huge block. */
static bool check_start(const void *pointer, struct superslab **superslab)
{
    uint32_t tag = pagemap_tag(pointer);
    *superslab = NULL;
    if ((uintptr_t)pointer % GRANULE_BYTES != 0) return failfast_refused(FAILFAST_misaligned_pointer, pointer, NULL);
    if ((tag_is_run(tag) || tag_is_huge(tag)) && (uintptr_t)pointer % PAGE_BYTES != 0)
        return failfast_refused(FAILFAST_interior_pointer, pointer, NULL);
    if (tag_is_huge(tag)) return true;
    *superslab = pagemap_descriptor_of(pointer);
    if (tag_is_run(tag)) return true;
    struct slab *slab = superslab_slab_of(*superslab, pointer);
    if ((const char *)pointer < slab_start(*superslab, slab))
        return failfast_refused(FAILFAST_never_returned, pointer, "before the first block");
    uint32_t rest;
    uint32_t index = block_index(slab, slab_start(*superslab, slab), pointer, &rest);
    if (rest != 0) return failfast_refused(FAILFAST_interior_pointer, pointer, NULL);
    if (index >= slab->capacity) return failfast_refused(FAILFAST_never_returned, pointer, "past the last block");
    return true;
}

bool validate_free(const void *pointer)
{
    if (failfast_level() == LEVEL_NONE) return true;
    struct superslab *superslab;
    if (!check_start(pointer, &superslab)) return false;
    return superslab == NULL || live_clear(superslab, pointer) || failfast_refused(FAILFAST_double_free, pointer, NULL);
}

bool validate_live(const void *pointer)
{
    if (failfast_level() == LEVEL_NONE) return true;
    struct superslab *superslab;
    if (!check_start(pointer, &superslab)) return false;
    return superslab == NULL || validate_is_live(superslab, pointer) ||
           failfast_refused(FAILFAST_realloc_freed, pointer, NULL);
}

static bool is_block_of(struct superslab *superslab, const struct slab *slab, const void *address)
{
    const char *start = slab_start(superslab, slab);
    if ((const char *)address < start) return false;
    size_t offset = (size_t)((const char *)address - start), block_bytes = sizeclass_bytes(slab->class_index);
    return offset % block_bytes == 0 && offset / block_bytes < slab->capacity;
}

void validate_remote(struct slab *slab, const struct block *head, uint32_t count)
{
    if (failfast_level() == LEVEL_NONE) return;
    struct superslab *superslab = superslab_of(slab);
    const struct block *block = head;
    for (uint32_t i = 0; i < count; i++) {
        const struct block *next = link_get(&block->next);
        bool is_last = i + 1 == count;
        if (is_last ? next != NULL : !is_block_of(superslab, slab, next))
            failfast_link(FAILFAST_remote_link, block,
                          is_last ? "the list continues beyond its count" : "the link leaves the slab", &block->next);
        block = next;
    }
}

void validate_discarded(const void *start, uint32_t pages)
{
    struct superslab *superslab = pagemap_descriptor(start);
    uint32_t first = granule_of(start) / WORD_BITS;
    for (uint32_t word = 0; word < pages * PAGE_WORDS; word++)
        atomic_store_explicit(&superslab->live_bits[first + word], 0, memory_order_relaxed);
}

void validate_returned(const struct slab *slab, uint32_t count)
{
    if (failfast_level() == LEVEL_NONE) return;
    if (count > atomic_load_explicit(&slab->used_count, memory_order_relaxed))
        failfast(FAILFAST_law, slab, "law 1: more blocks came back to a slab than were out");
}

uint32_t validate_live_count(const struct superslab *superslab, uint32_t page)
{
    uint32_t count = 0;
    for (uint32_t word = 0; word < PAGE_WORDS; word++)
        count += (uint32_t)__builtin_popcountll(
            atomic_load_explicit(&superslab->live_bits[page * PAGE_WORDS + word], memory_order_relaxed));
    return count;
}
