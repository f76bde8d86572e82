/* canary.c: a malloc whose threads share nothing, for the tests of hakmem-order contention. With CANARY_COUNTER each malloc adds to
 * one counter of all threads; with CANARY_NEIGHBOUR each thread adds to a counter of its own, and all of these lie on a few
 * lines. With CANARY_KEEPER the first thread that takes the lock keeps it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A thread makes up to 16 accesses in a turn. So each malloc takes several turns, and two counts of one thread are never in the
 * same one. */
enum { CELL_BYTES = 1024, CELLS = 1024, THREADS = 64, ACCESSES = 24 };

struct cell {
    struct cell *next;
    _Alignas(16) unsigned char bytes[CELL_BYTES - 16];
};

static _Alignas(64) struct cell cells[THREADS][CELLS];
static _Alignas(64) atomic_uint begun;
static _Thread_local struct {
    unsigned number; /* from 1; 0: the thread has called nothing yet */
    size_t used;
    struct cell *list;
    volatile unsigned pad;
} mine;

#if defined CANARY_COUNTER
static _Alignas(64) atomic_ulong counter;
#elif defined CANARY_NEIGHBOUR
static _Alignas(64) atomic_ulong counters[THREADS];
#elif defined CANARY_KEEPER
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int has_it;
#endif

void *canary_malloc(size_t bytes) __asm__("malloc");
void canary_free(void *block) __asm__("free");
void *canary_calloc(size_t count, size_t bytes) __asm__("calloc");
void *canary_realloc(void *block, size_t bytes) __asm__("realloc");

void *canary_malloc(size_t bytes)
{
    if (bytes > sizeof cells[0][0].bytes) return NULL;
    if (mine.number == 0) mine.number = 1 + atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed) % THREADS;
    for (unsigned i = 0; i < ACCESSES; i++) mine.pad = i;
#if defined CANARY_COUNTER
    atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
#elif defined CANARY_NEIGHBOUR
    atomic_fetch_add_explicit(&counters[mine.number - 1], 1, memory_order_relaxed);
#elif defined CANARY_KEEPER
    if (!has_it) has_it = pthread_mutex_lock(&kept) == 0;
#endif
    struct cell *cell = mine.list;
    if (cell != NULL) mine.list = cell->next;
    else if (mine.used < CELLS) cell = &cells[mine.number - 1][mine.used++];
    return cell == NULL ? NULL : cell->bytes;
}

void canary_free(void *block)
{
    if (block == NULL) return;
    struct cell *cell = (struct cell *)((unsigned char *)block - offsetof(struct cell, bytes));
    cell->next = mine.list;
    mine.list = cell;
}

void *canary_calloc(size_t count, size_t bytes)
{
    void *block = canary_malloc(count * bytes);
    return block == NULL ? NULL : memset(block, 0, count * bytes);
}

void *canary_realloc(void *block, size_t bytes)
{
    return bytes <= sizeof cells[0][0].bytes ? block : NULL;
}
