/* Chunks of slabs, and a bin for each class with the slabs that have free blocks. A bin's lock guards its slabs, the lock
 * of the chunks what is free in them. A thread that finds a bin taken leaves its blocks on the bin's list `late`, and
 * the thread that has the lock takes them from there before it lets go. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "rooms.h"

struct block {
    struct block *next;
};

struct slab {
    struct head head;
    unsigned class_index, capacity, carved, used, generation;
    bool listed; /* in its bin */
    size_t block_bytes;
    struct block *free;
    struct slab *prev, *next;
};

struct chunk {
    unsigned free_mask; /* bit I: slab I is free; bit 0 never */
    struct chunk *prev, *next; /* of the open chunks, which have free slabs */
};

struct bin {
    struct lock lock;
    struct slab *slabs;
    _Atomic(struct block *) late;
};

enum { ALL_SLABS = 0xfffe, DIRTY_SLABS = 8 };

static struct bin bins[CLASSES];
static struct lock chunks_lock;
static struct chunk *open_chunks;
static unsigned generation; /* of slabs; a forked child begins the next and leaves older ones alone */
static struct slab *dirty[DIRTY_SLABS]; /* free slabs that still have memory */

unsigned class_of(size_t size_bytes)
{
    if (has(BUG_class_edge) && size_bytes > 1024 && size_bytes <= 1032) size_bytes = 1024;
    if (size_bytes <= LINEAR_CLASSES * 16) return size_bytes == 0 ? 0 : (unsigned)((size_bytes - 1) / 16);
    const unsigned log2 = 63 - (unsigned)__builtin_clzl(size_bytes - 1);
    const size_t quarter = (size_bytes - 1 - ((size_t)1 << log2)) >> (log2 - 2);
    return LINEAR_CLASSES + (log2 - 9) * 4 + (unsigned)quarter;
}

size_t class_bytes(unsigned class_index)
{
    if (class_index < LINEAR_CLASSES) return (class_index + 1) * 16;
    const unsigned log2 = 9 + (class_index - LINEAR_CLASSES) / 4;
    return ((size_t)1 << log2) + ((class_index - LINEAR_CLASSES) % 4 + 1) * ((size_t)1 << (log2 - 2));
}

static struct chunk *chunk_of(struct slab *slab)
{
    return (struct chunk *)((uintptr_t)slab & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static unsigned index_of(struct slab *slab)
{
    return (unsigned)((uintptr_t)slab % CHUNK_BYTES / SLAB_BYTES);
}

static void chunk_open(struct chunk *chunk)
{
    chunk->prev = NULL;
    chunk->next = open_chunks;
    if (open_chunks != NULL) open_chunks->prev = chunk;
    open_chunks = chunk;
}

static void chunk_close(struct chunk *chunk)
{
    if (chunk->prev != NULL) chunk->prev->next = chunk->next;
    else open_chunks = chunk->next;
    if (chunk->next != NULL) chunk->next->prev = chunk->prev;
}

static struct chunk *chunk_new(void)
{
    struct chunk *chunk = map_aligned(CHUNK_BYTES, CHUNK_BYTES);
    if (chunk == NULL) return NULL;
    if (has(BUG_descriptor_left)) open("/dev/null", O_RDONLY | O_CLOEXEC);
    chunk->free_mask = ALL_SLABS;
    chunk_open(chunk);
    return chunk;
}

static void dirty_forget(struct slab *slab)
{
    for (unsigned i = 0; i < DIRTY_SLABS; i++)
        if (dirty[i] == slab) dirty[i] = NULL;
}

/* Called with the lock of the chunks. */
static void dirty_purge(void)
{
    struct slab *old[DIRTY_SLABS];
    if (has(BUG_purge_unlocked)) {
        memcpy(old, dirty, sizeof old);
        memset(dirty, 0, sizeof dirty);
        lock_release(&chunks_lock);
        for (unsigned i = 0; i < DIRTY_SLABS; i++)
            if (old[i] != NULL) madvise(old[i], SLAB_BYTES, MADV_DONTNEED);
        lock_take(&chunks_lock);
    }
    for (unsigned i = 0; i < DIRTY_SLABS; i++) {
        if (dirty[i] != NULL && !has(BUG_small_never_back)) madvise(dirty[i], SLAB_BYTES, MADV_DONTNEED);
        dirty[i] = NULL;
    }
}

static struct slab *slab_new(unsigned class_index)
{
    struct chunk *early = has(BUG_chunk_race) ? open_chunks : NULL;
    const unsigned early_mask = early != NULL ? early->free_mask : 0;
    lock_take(&chunks_lock);
    struct chunk *chunk = open_chunks != NULL ? open_chunks : chunk_new();
    if (chunk == NULL) {
        if (!has(BUG_refused_lock)) lock_release(&chunks_lock);
        return NULL;
    }
    const bool chosen = early_mask != 0 && chunk == early;
    const unsigned index = (unsigned)__builtin_ctz(chosen ? early_mask : chunk->free_mask);
    chunk->free_mask &= ~(1u << index);
    if (chunk->free_mask == 0) chunk_close(chunk);
    struct slab *slab = (struct slab *)((char *)chunk + (size_t)index * SLAB_BYTES);
    if (!has(BUG_purge_queue)) dirty_forget(slab);
    lock_release(&chunks_lock);
    memset(slab, 0, sizeof *slab);
    slab->head.kind = HEAD_SLAB;
    slab->class_index = class_index;
    slab->generation = generation;
    slab->block_bytes = class_bytes(class_index);
    const size_t bytes = SLAB_BYTES - (has(BUG_last_block) && slab->block_bytes > 512 ? 0 : SLAB_HEAD_BYTES);
    slab->capacity = (unsigned)(bytes / slab->block_bytes);
    return slab;
}

/* A free slab keeps its memory until the queue is full. A chunk goes back when all of its slabs are free and another
 * chunk has some. */
static void slab_release(struct slab *slab)
{
    lock_take(&chunks_lock);
    struct chunk *chunk = chunk_of(slab);
    if (chunk->free_mask == 0) chunk_open(chunk);
    chunk->free_mask |= 1u << index_of(slab);
    unsigned place = 0;
    while (place < DIRTY_SLABS && dirty[place] != NULL) place++;
    if (place == DIRTY_SLABS) {
        dirty_purge();
        place = 0;
    }
    dirty[place] = slab;
    const bool another = chunk->prev != NULL || chunk->next != NULL;
    if (chunk->free_mask == ALL_SLABS && another && !has(BUG_small_never_back)) {
        for (unsigned i = 1; i < CHUNK_BYTES / SLAB_BYTES; i++)
            dirty_forget((struct slab *)((char *)chunk + (size_t)i * SLAB_BYTES));
        chunk_close(chunk);
        /* Refused, for want of mappings: the chunk stays, without memory. */
        if (munmap(chunk, CHUNK_BYTES) != 0) {
            madvise((char *)chunk + SLAB_BYTES, CHUNK_BYTES - SLAB_BYTES, MADV_DONTNEED);
            chunk_open(chunk);
        }
    }
    lock_release(&chunks_lock);
}

void slabs_trim(void)
{
    lock_take(&chunks_lock);
    bool any = false;
    for (unsigned i = 0; i < DIRTY_SLABS; i++) any |= dirty[i] != NULL;
    if (has(BUG_trim_lock) && !any) return;
    dirty_purge();
    lock_release(&chunks_lock);
}

static void bin_list(struct bin *bin, struct slab *slab)
{
    slab->prev = NULL;
    slab->next = bin->slabs;
    if (bin->slabs != NULL) bin->slabs->prev = slab;
    bin->slabs = slab;
    slab->listed = true;
}

static void bin_unlist(struct bin *bin, struct slab *slab)
{
    if (slab->prev != NULL) slab->prev->next = slab->next;
    else bin->slabs = slab->next;
    if (slab->next != NULL) slab->next->prev = slab->prev;
    slab->listed = false;
}

static void purge_block(struct slab *slab, char *block)
{
    const uintptr_t begin = ((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t end = (uintptr_t)block + slab->block_bytes;
    if (has(BUG_purge_outward)) end += PAGE - 1;
    end &= ~(uintptr_t)(PAGE - 1);
    const uintptr_t slab_end = (uintptr_t)slab + SLAB_BYTES;
    if (end > slab_end) end = slab_end;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* The last listed slab of a bin stays, also when it is empty. */
static void slab_put(struct bin *bin, struct block *block)
{
    struct slab *slab = (struct slab *)(void *)head_of(block);
    if (slab->generation != generation) return;
    block->next = slab->free;
    slab->free = block;
    slab->used--;
    if (slab->block_bytes >= 2 * PAGE && slab->used % 4 == 1) {
        struct block kept = *block;
        purge_block(slab, (char *)block);
        *block = kept;
    }
    if (!slab->listed) bin_list(bin, slab);
    const unsigned used = has(BUG_count_8) ? (uint8_t)slab->used : slab->used;
    if (used != 0 || (slab->prev == NULL && slab->next == NULL)) return;
    bin_unlist(bin, slab);
    slab_release(slab);
}

static void put_all(struct bin *bin, struct block *list)
{
    while (list != NULL) {
        struct block *next = list->next;
        slab_put(bin, list);
        list = next;
    }
}

static void late_drain(struct bin *bin)
{
    /* acquire: pairs with the release in late_push. */
    put_all(bin, atomic_exchange_explicit(&bin->late, NULL, memory_order_acquire));
}

static void late_push(struct bin *bin, struct block *block)
{
    struct block *head = atomic_load_explicit(&bin->late, memory_order_relaxed);
    if (has(BUG_push_lost)) {
        block->next = head;
        atomic_store_explicit(&bin->late, block, memory_order_release);
        return;
    }
    if (has(BUG_publish_early)) {
        head = atomic_exchange_explicit(&bin->late, block, memory_order_release);
        block->next = head;
        return;
    }
    do {
        block->next = head;
        /* release: publishes block->next to late_drain. */
    } while (
        !atomic_compare_exchange_weak_explicit(&bin->late, &head, block, memory_order_release, memory_order_relaxed));
}

/* What came while the bin was taken is put back, unless somebody else has the lock by now and does it. */
static void bin_release(struct bin *bin)
{
    do {
        late_drain(bin);
        lock_release(&bin->lock);
    } while (atomic_load(&bin->late) != NULL && lock_try(&bin->lock));
}

static void *late_pop(struct bin *bin)
{
    struct block *head = atomic_load(&bin->late);
    while (head != NULL && !atomic_compare_exchange_weak(&bin->late, &head, head->next)) {}
    return head;
}

void *bin_take(unsigned class_index)
{
    struct bin *bin = &bins[class_index];
    if (has(BUG_pop_aba)) {
        void *late = late_pop(bin);
        if (late != NULL) return late;
    }
    lock_take(&bin->lock);
    struct slab *slab = bin->slabs;
    if (slab == NULL) {
        slab = slab_new(class_index);
        if (slab != NULL) bin_list(bin, slab);
    }
    struct block *block = NULL;
    if (slab != NULL) {
        block = slab->free;
        if (block != NULL) slab->free = block->next;
        else block = (struct block *)(void *)((char *)slab + SLAB_HEAD_BYTES + slab->carved++ * slab->block_bytes);
        if (++slab->used == slab->capacity) bin_unlist(bin, slab);
    }
    bin_release(bin);
    return block;
}

void bin_put_list(unsigned class_index, void *list)
{
    struct bin *bin = &bins[class_index];
    if (lock_try(&bin->lock)) {
        put_all(bin, list);
        bin_release(bin);
        return;
    }
    for (struct block *block = list, *next; block != NULL; block = next) {
        next = block->next;
        late_push(bin, block);
    }
    if (lock_try(&bin->lock)) bin_release(bin);
}

void *slab_block_start(void *block, unsigned *class_index)
{
    struct slab *slab = (struct slab *)(void *)head_of(block);
    const size_t offset = (size_t)((char *)block - (char *)slab - SLAB_HEAD_BYTES);
    *class_index = slab->class_index;
    return (char *)block - offset % slab->block_bytes;
}

size_t slab_usable_bytes(void *block)
{
    unsigned class_index;
    const char *start = slab_block_start(block, &class_index);
    return class_bytes(class_index) - (size_t)((char *)block - start);
}

void slabs_forget(void)
{
    generation = has(BUG_fork_twice) ? generation ^ 1 : generation + 1;
    for (unsigned i = 0; i < CLASSES; i++) {
        lock_reset(&bins[i].lock);
        bins[i].slabs = NULL;
        atomic_store(&bins[i].late, NULL);
    }
    if (!has(BUG_fork_lock)) lock_reset(&chunks_lock);
    open_chunks = NULL;
    memset(dirty, 0, sizeof dirty);
}

void slabs_lock(void)
{
    lock_take(&chunks_lock);
    for (unsigned i = 0; i < CLASSES; i++) lock_take(&bins[i].lock);
}

void slabs_unlock(void)
{
    lock_release(&chunks_lock);
    for (unsigned i = 0; i < CLASSES; i++) lock_release(&bins[i].lock);
}
