/* canary.c: a malloc for the tests of hakmem-order simulate: cells under one lock, a mapping for each larger block, and a cache of
 * one mapping. CANARY_KIND chooses a bug, most of which only one kind of trouble shows, or how a right malloc meets fork. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    RIGHT_RESETS,
    RIGHT_LOCKS,
    RIGHT_INITS,
    BUG_RELAXED,
    BUG_REFUSED,
    BUG_INTERRUPTED,
    BUG_FORKED,
    BUG_TORN,
    BUG_ERRNO,
    BUG_UNMAPS_TWICE,
    BUG_SPINNING,
    BUG_CLOCK,
    BUG_LOADED,
    BUG_LIBC_HEAP
};
enum { USES_MUTEX = CANARY_KIND == RIGHT_LOCKS || CANARY_KIND == RIGHT_INITS };
enum { CELL_BYTES = 8192, CELLS = 64, HEAD_BYTES = 4096, KEPT_MS = 1000 };

struct cell {
    size_t bytes; /* of the block; in a mapping too, HEAD_BYTES before the block */
    struct cell *next;
    _Alignas(16) unsigned char block[CELL_BYTES - 16];
};

static struct cell cells[CELLS];
static struct cell *free_cells;
static size_t used;
static _Atomic(uint32_t) lock;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* for USES_MUTEX */
static pthread_once_t once = PTHREAD_ONCE_INIT; /* for RIGHT_RESETS */
static _Atomic(uint32_t) beginnings;
static char *kept; /* the mapping that was freed last */
static size_t kept_bytes;
static uint64_t kept_since_ms;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void take_lock(void)
{
    if (USES_MUTEX) {
        pthread_mutex_lock(&mutex);
        return;
    }
    while (atomic_exchange_explicit(&lock, 1, memory_order_acquire) != 0) {
        if (CANARY_KIND == BUG_SPINNING) continue;
        long result = syscall(SYS_futex, &lock, FUTEX_WAIT, 1, NULL, NULL, 0);
        if (CANARY_KIND == BUG_INTERRUPTED && result == -1 && errno == EINTR) return;
    }
}

static void release_lock(void)
{
    if (USES_MUTEX) {
        pthread_mutex_unlock(&mutex);
        return;
    }
    atomic_store_explicit(&lock, 0, CANARY_KIND == BUG_RELAXED ? memory_order_relaxed : memory_order_release);
    syscall(SYS_futex, &lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* In the child after fork. Who had the lock may have been changing what is kept. */
static void reset_lock(void)
{
    if (CANARY_KIND != BUG_TORN && atomic_load_explicit(&lock, memory_order_relaxed) != 0) kept = NULL;
    if (CANARY_KIND != BUG_FORKED && CANARY_KIND != BUG_SPINNING) atomic_store_explicit(&lock, 0, memory_order_relaxed);
}

/* In the child, too: the thread that holds it is not there. */
static void init_mutex(void)
{
    pthread_mutex_init(&mutex, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    if (CANARY_KIND == BUG_LOADED) __builtin_trap();
    if (CANARY_KIND == RIGHT_LOCKS) pthread_atfork(take_lock, release_lock, release_lock);
    else if (CANARY_KIND == RIGHT_INITS) pthread_atfork(take_lock, release_lock, init_mutex);
    else pthread_atfork(NULL, NULL, reset_lock);
}

static char *kept_take(size_t bytes)
{
    take_lock();
    char *start = kept_bytes == bytes ? kept : NULL;
    if (start != NULL) kept = NULL;
    if (start != NULL && now_ms() - kept_since_ms > KEPT_MS) {
        munmap(start, bytes);
        if (CANARY_KIND != BUG_CLOCK) start = NULL;
    }
    release_lock();
    return start;
}

static void *mapping_malloc(size_t bytes)
{
    char *start = kept_take(bytes + HEAD_BYTES);
    if (start == NULL)
        start = mmap(NULL, bytes + HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (CANARY_KIND != BUG_REFUSED && start == MAP_FAILED) return NULL;
    *(size_t *)start = bytes;
    return start + HEAD_BYTES;
}

static void mapping_free(char *start)
{
    take_lock();
    char *old = kept;
    size_t old_bytes = kept_bytes;
    kept = start;
    kept_bytes = *(size_t *)start + HEAD_BYTES;
    kept_since_ms = now_ms();
    release_lock();
    if (old != NULL) munmap(old, old_bytes);
    if (old != NULL && CANARY_KIND == BUG_UNMAPS_TWICE) munmap(old, old_bytes);
}

/* A fork may come between its steps. */
static void count_beginning(void)
{
    atomic_fetch_add_explicit(&beginnings, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&beginnings, 1, memory_order_relaxed);
}

static bool is_cell(const void *block)
{
    return (uintptr_t)block - (uintptr_t)cells < sizeof cells;
}

/* libc notices it in its own malloc, and aborts with that malloc's lock taken. */
static void break_libc_heap(void)
{
    void *__libc_malloc(size_t bytes);
    void __libc_free(void *block);
    enum { LISTED_BYTES = 2000 };
    void **block = __libc_malloc(LISTED_BYTES);
    __libc_malloc(LISTED_BYTES); /* between it and the end of the heap */
    __libc_free(block);
    block[1] = block; /* the list's link */
    __libc_malloc(LISTED_BYTES);
}

static void *allocate(size_t bytes)
{
    if (CANARY_KIND == RIGHT_RESETS) pthread_once(&once, count_beginning);
    if (bytes > sizeof cells[0].block) return mapping_malloc(bytes);
    take_lock();
    struct cell *cell = free_cells;
    if (cell != NULL) free_cells = cell->next;
    else if (used < CELLS) cell = &cells[used++];
    release_lock();
    if (cell == NULL) return mapping_malloc(bytes);
    cell->bytes = bytes;
    return cell->block;
}

static void release(void *block)
{
    if (block == NULL) return;
    if (!is_cell(block)) return mapping_free((char *)block - HEAD_BYTES);
    struct cell *cell = (struct cell *)((unsigned char *)block - offsetof(struct cell, block));
    take_lock();
    cell->next = free_cells;
    free_cells = cell;
    release_lock();
}

/* These names are libc's, too, so nothing here may call them. */
void *canary_malloc(size_t bytes) __asm__("malloc");
void canary_free(void *block) __asm__("free");
void *canary_calloc(size_t count, size_t bytes) __asm__("calloc");
void *canary_realloc(void *block, size_t bytes) __asm__("realloc");

void *canary_malloc(size_t bytes)
{
    return allocate(bytes);
}

void canary_free(void *block)
{
    int error = errno;
    release(block);
    if (CANARY_KIND != BUG_ERRNO) errno = error;
}

void *canary_calloc(size_t count, size_t bytes)
{
    if (CANARY_KIND == BUG_LIBC_HEAP) break_libc_heap();
    void *block = allocate(count * bytes);
    return block == NULL ? NULL : memset(block, 0, count * bytes);
}

void *canary_realloc(void *block, size_t bytes)
{
    size_t old = *(size_t *)((char *)block - (is_cell(block) ? offsetof(struct cell, block) : HEAD_BYTES));
    void *new = allocate(bytes);
    if (new == NULL) return NULL;
    memcpy(new, block, old < bytes ? old : bytes);
    release(block);
    return new;
}
