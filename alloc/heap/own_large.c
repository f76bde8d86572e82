/* own_large.c: runs and huge blocks; see own_inside.h. */
#include "heap/own_inside.h"

#include "base/bits.h"
#include "heap/heap.h"
#include "heap/huge.h"
#include "heap/large.h"
#include "slab/slab.h"
#include "superslab/pagemap.h"

/* The list is whole by `next` at every moment, so that a child that is forked meanwhile can follow it. */
static void huge_add(struct hak_heap *heap, struct huge_link *link)
{
    *link = (struct huge_link){.heap = heap, .next = heap->huges};
    if (heap->huges != NULL) heap->huges->prev = link;
    atomic_signal_fence(memory_order_release);
    heap->huges = link;
}

static void huge_remove(struct hak_heap *heap, struct huge_link *link)
{
    if (link->next != NULL) link->next->prev = link->prev;
    if (link->prev != NULL) link->prev->next = link->next;
    if (heap->huges == link) heap->huges = link->next;
}

/* Around each change of a large block: counts the bytes that it may take more, and what it took more or less in the end.
 * False: at the limit. */
static bool change_begin(struct hak_heap *heap, size_t more_bytes)
{
    own_lock(heap);
    bool fits = more_bytes == 0 || own_make_room(heap, more_bytes);
    if (fits) {
        heap->large_bytes += more_bytes;
        heap->large_changes++;
        own_note_peak(heap);
    }
    own_unlock(heap);
    return fits;
}

/* Under the lock. */
static void change_end(struct hak_heap *heap, size_t bytes)
{
    heap->large_bytes += bytes;
    heap->large_changes--;
    own_note_peak(heap);
}

static void whole_change_end(struct hak_heap *heap, size_t bytes)
{
    own_lock(heap);
    change_end(heap, bytes);
    own_unlock(heap);
}

static void *large_alloc_counted(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed)
{
    if (size_bytes <= RUN_BYTES_MAX && align_bytes <= RUN_BYTES_MAX) {
        char *start = large_alloc(align_bytes, size_bytes, false, zeroed);
        if (start == NULL) return NULL;
        own_lock(heap);
        slab_of(start)->owner = &heap->owner;
        own_list_add(&heap->runs, slab_of(start));
        pagemap_tag_set(start, 1, CLASS_OWN);
        change_end(heap, 0);
        own_unlock(heap);
        return start;
    }
    char *start = huge_alloc(align_bytes, size_bytes, zeroed);
    if (start == NULL) return NULL;
    own_lock(heap);
    huge_add(heap, huge_link_of(start));
    pagemap_tag_set(start, 1, CLASS_OWN_HUGE);
    /* It is longer where the system does not take back the end of its mapping. */
    change_end(heap, huge_usable_size(start) - round_up(size_bytes, PAGE_BYTES));
    own_unlock(heap);
    return start;
}

void *own_large_alloc(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zeroed, bool *at_limit)
{
    if (size_bytes == 0) size_bytes = 1;
    size_t bytes = round_up(size_bytes, PAGE_BYTES);
    *at_limit = !change_begin(heap, bytes);
    if (*at_limit) return NULL;
    own_tick();
    void *start = large_alloc_counted(heap, align_bytes, size_bytes, zeroed);
    if (start == NULL) whole_change_end(heap, -bytes);
    return start;
}

void own_run_free(struct hak_heap *heap, void *start)
{
    own_lock(heap);
    bool is_mine = pagemap_tag_take(start, CLASS_OWN); /* else another thread is freeing it too */
    if (is_mine) {
        heap->large_bytes -= large_usable_size(start);
        own_list_remove(&heap->runs, slab_of(start));
    }
    own_unlock(heap);
    if (!is_mine) return;
    pagemap_tag_set(start, 1, CLASS_RUN);
    large_free(start);
}

void own_huge_free(void *start)
{
    struct huge_link *link = huge_link_of(start);
    struct hak_heap *heap = link->heap;
    own_lock(heap);
    bool is_mine = pagemap_tag_take(start, CLASS_OWN_HUGE);
    if (is_mine) {
        heap->large_bytes -= huge_usable_of(link);
        huge_remove(heap, link);
    }
    own_unlock(heap);
    if (!is_mine) return;
    pagemap_tag_set(start, 1, CLASS_HUGE);
    huge_free(start);
}

void *own_large_resize(struct hak_heap *heap, void *pointer, size_t usable_bytes, size_t size_bytes)
{
    size_t more_bytes = size_bytes > usable_bytes ? size_bytes - usable_bytes : 0;
    bool is_run = pagemap_tag(pointer) == CLASS_OWN;
    more_bytes = (more_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    /* One that shrinks is always taken: a lowered limit may be below what is in use. */
    if (!change_begin(heap, more_bytes)) return NULL;
    void *resized = pointer;
    if (is_run) {
        if (SANITIZED) heap_tell_shorter(pointer, usable_bytes, size_bytes);
        if (!large_resize(pointer, size_bytes)) resized = NULL;
    } else {
        resized = huge_realloc(pointer, size_bytes);
    }
    char *start = resized != NULL ? resized : pointer;
    size_t now_bytes = is_run ? large_usable_size(start) : huge_usable_size(start);
    if (!is_run) pagemap_tag_set(start, 1, CLASS_OWN_HUGE); /* huge_realloc may have set its own, even if it failed */
    whole_change_end(heap, now_bytes - usable_bytes - more_bytes);
    return resized;
}
