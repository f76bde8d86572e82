/* owed.c: see owed.h. */
#include "cache/owed.h"

#include "slab/slab.h"
#include "slab/trim.h"
#include "os/os.h"
#include "slab/validate.h"
#include "superslab/purge.h"

static void flush_class_begin(struct heap *heap, uint32_t class_index)
{
    while (class_index < CLASS_COUNT && parking_count(&heap->parking[class_index]) == 0) class_index++;
    if (class_index == CLASS_COUNT) {
        heap->flush_class = 0;
        slab_release_empty(&heap->owner);
        return;
    }
    heap->flush_class = (uint8_t)class_index;
    heap->flush_lists = parking_count(&heap->parking[class_index]);
}

void heap_flush_begin(struct heap *heap)
{
    heap->flush_class = 1;
    heap->flush_lists = parking_count(&heap->parking[1]); /* if there is none, the first step finds out */
}

void tcache_flush_begin(struct tcache *tcache)
{
    if (tcache->heap->flush_class == 0) tcache_park_all(tcache);
    heap_flush_begin(tcache->heap);
}

void heap_flush_step(struct heap *heap)
{
    for (uint32_t blocks = 0; heap->flush_class != 0 && blocks < FLUSH_STEP_BLOCKS;) {
        uint32_t class_index = heap->flush_class;
        struct block *list = magazine_pop(heap, class_index);
        if (VALIDATE && list != NULL) validate_list(list, class_index);
        if (list != NULL) heap->parking[class_index].gave_back = true;
        if (list != NULL) blocks += slab_give_back_each(list);
        if (list == NULL || --heap->flush_lists == 0) flush_class_begin(heap, class_index + 1);
    }
}

void tcache_trim_idle(struct tcache *tcache, uint64_t now_ms, uint64_t pause_ms)
{
    struct heap *heap = tcache->heap;
    uint32_t delay_ms = purge_delay_ms() > 0 ? purge_delay_ms() : PURGE_DELAY_MS;
    const bool has_slept = pause_ms >= (uint64_t)PAUSE_DELAYS * delay_ms;
    tcache_busy_begin(tcache);
    if (!has_slept && !slab_trim_put_off(&heap->owner, now_ms)) {
        tcache_busy_end(tcache);
        return;
    }
    size_t idle_bytes = owner_idle_bytes(&heap->owner);
    if (idle_bytes < heap->owner.idle_bytes_kept) heap->owner.idle_bytes_kept = idle_bytes;
    if (idle_bytes >= heap->owner.idle_bytes_kept + TRIM_IDLE_BYTES_MIN) slab_trim_shrunk(&heap->owner);
    tcache->owes = heap_owes(heap);
    tcache_busy_end(tcache);
}

void tcache_pay(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    tcache_busy_begin(tcache);
    if (heap->owner.owes_drain) {
        heap->owner.owes_drain = false; /* in a forked child the queue may be another one */
        tcache_settle(tcache);
    }
    if (heap->flush_class != 0) heap_flush_step(heap);
    else if (slab_trim_is_due(&heap->owner)) slab_trim_step(&heap->owner);
    tcache->owes = heap_owes(heap);
    tcache_busy_end(tcache);
}

void tcache_watch_idle(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    tcache->owes = heap_owes(heap);
    if (tcache->watches_idle || (owner_idle_bytes(&heap->owner) < TRIM_IDLE_BYTES_MIN && !tcache->owes)) return;
    tcache->watches_idle = true;
    tcache->heap->seen_ms = os_now_ms();
}

void tcache_grown(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    size_t peak = limit_committed_peak_bytes(), step = peak >> GROWTH_LOG2;
    bool is_new = heap->growth_bytes == 0;
    heap->growth_bytes = peak + (step > GROWTH_BYTES_MIN ? step : GROWTH_BYTES_MIN);
    if (is_new) return;
    tcache_busy_begin(tcache);
    tcache_flush_begin(tcache);
    /* What the flush brings now is likely wanted again soon, so a trim is for what lies there already. It has no wait, since
     * growth has an end. */
    if (owner_idle_bytes(&heap->owner) >= TRIM_IDLE_BYTES_MIN) slab_trim_begin(&heap->owner);
    tcache_watch_idle(tcache);
    tcache_busy_end(tcache);
}
