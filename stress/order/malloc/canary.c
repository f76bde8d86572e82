/* canary.c: a malloc of one list under one lock, for the tests of hakmem-order. With CANARY_RELAXED the lock is released with
 * relaxed order: on x86 it works, and C11 lets the next holder see the list as it was before. With CANARY_LEAVING,
 * and linked without -Bsymbolic, its calloc calls the malloc of libc. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef CANARY_LEAVING
#define CANARY_CALL __attribute__((noinline))
#else
#define CANARY_CALL
#endif

#ifdef CANARY_RELAXED
#define CANARY_UNLOCK memory_order_relaxed
#else
#define CANARY_UNLOCK memory_order_release
#endif

enum { CELL_BYTES = 8192, CELLS = 64 };

struct cell {
    struct cell *next;
    _Alignas(16) unsigned char bytes[CELL_BYTES - 16];
};

static struct cell cells[CELLS];
static struct cell *free_cells;
static size_t used;
static atomic_int lock;

static void take_lock(void)
{
    while (atomic_exchange_explicit(&lock, 1, memory_order_acquire) != 0) {}
}

static void release_lock(void)
{
    atomic_store_explicit(&lock, 0, CANARY_UNLOCK);
}

CANARY_CALL void *canary_malloc(size_t bytes) __asm__("malloc");
void canary_free(void *block) __asm__("free");
void *canary_calloc(size_t count, size_t bytes) __asm__("calloc");
void *canary_realloc(void *block, size_t bytes) __asm__("realloc");

void *canary_malloc(size_t bytes)
{
    if (bytes > sizeof cells[0].bytes) return NULL;
    take_lock();
    struct cell *cell = free_cells;
    if (cell != NULL) free_cells = cell->next;
    else if (used < CELLS) cell = &cells[used++];
    release_lock();
    return cell == NULL ? NULL : cell->bytes;
}

void canary_free(void *block)
{
    if (block == NULL) return;
    struct cell *cell = (struct cell *)((unsigned char *)block - offsetof(struct cell, bytes));
    take_lock();
    cell->next = free_cells;
    free_cells = cell;
    release_lock();
}

void *canary_calloc(size_t count, size_t bytes)
{
    void *block = canary_malloc(count * bytes);
    return block == NULL ? NULL : memset(block, 0, count * bytes);
}

void *canary_realloc(void *block, size_t bytes)
{
    return bytes <= sizeof cells[0].bytes ? block : NULL;
}
