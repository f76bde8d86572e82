/* A malloc with one planted bug, to prove that the suite finds it. It forwards to libc and sometimes misbehaves in the
 * way that CANARY_BUG says: once in a number of calls of a kind, or for some sizes, whatever the scenario. CANARY_NONE
 * must pass, which shows that the suite finds the bug and not the forwarding.
 *
 * glibc keeps free memory that lies below a block in use. Every canary but CANARY_RETAIN avoids that by trimming twenty
 * times a second, so that it passes the rule memory_return. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum bug {
    CANARY_NONE,
    CANARY_COUNT,           /* no bug: prints at exit how often it was called */
    CANARY_OVERLAP,         /* hands out one block again and again */
    CANARY_DOUBLE_HANDOUT,  /* hands out the block of the previous call again */
    CANARY_MISALIGNED,      /* malloc is off by 8 */
    CANARY_ALIGNED_ALLOC,   /* aligned_alloc and posix_memalign ignore the alignment */
    CANARY_ALIGNED_LARGE,   /* the same, for 16 KiB and more only */
    CANARY_CONTENT,         /* writes into a live block */
    CANARY_HEADER,          /* writes a header in front of the block, into its neighbour */
    CANARY_REALLOC_CONTENT, /* realloc loses a byte */
    CANARY_REALLOC_SHRINK,  /* realloc to a smaller size loses the end of the kept bytes */
    CANARY_CALLOC_ZERO,     /* the last byte of a calloc block is not zero */
    CANARY_CALLOC_DIRTY,    /* calloc of one element takes every block for fresh memory from the system */
    CANARY_USABLE_SIZE,     /* malloc_usable_size returns too little */
    CANARY_USABLE_MORE,     /* malloc_usable_size returns 16 bytes too much */
    CANARY_ERRNO,           /* free changes errno */
    CANARY_ERRNO_WAIT,      /* free leaves the errno of a futex that need not be waited for */
    CANARY_ENOMEM,          /* a failure does not set errno */
    CANARY_LEAK,            /* free does nothing */
    CANARY_LEAK_SLOW,       /* one free in a hundred does nothing */
    CANARY_LEAK_RARE,       /* one free in a thousand does nothing */
    CANARY_LOST_REMOTE,     /* a free by a thread that did not allocate the block does nothing */
    CANARY_RETAIN,          /* free memory is reused but never returned */
    CANARY_MAPPINGS,        /* sometimes leaves a mapping behind */
    CANARY_EXHAUSTED,       /* malloc sometimes returns NULL */
    CANARY_HANG,            /* malloc does not return */
    CANARY_CRASH,           /* free aborts */
};

static const enum bug BUG = CANARY_BUG;

enum { PERIOD = 997, PAGE = 4096 };

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);

static _Thread_local unsigned calls __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned frees __attribute__((tls_model("initial-exec")));
static _Thread_local char *last_block __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t own_number __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t thread_numbers;
static char shared_block[PAGE] __attribute__((aligned(PAGE)));
static char *watched; /* a live block into which CANARY_CONTENT writes */
static size_t (*libc_usable_size)(void *block);

/* Set when the program itself runs. The loader calls malloc before that, and nothing must go wrong then. */
static bool armed;

__attribute__((constructor)) static void canary_start(void)
{
    *(void **)&libc_usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
    if (BUG == CANARY_RETAIN) {
        mallopt(M_ARENA_MAX, 1);
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, INT_MAX);
    } else {
        /* A fixed threshold: otherwise glibc would raise it, and the trim threshold with it. */
        mallopt(M_MMAP_THRESHOLD, 128 << 10);
    }
    armed = true;
}

/* Each thread starts counting at another value, so that short threads misbehave too. */
static bool strike(enum bug bug)
{
    static _Atomic unsigned first_call;
    if (BUG != bug || !armed) return false;
    if (calls == 0) calls = 1 + atomic_fetch_add_explicit(&first_call, PERIOD / 3, memory_order_relaxed);
    return ++calls % PERIOD == 0;
}

/* How often each function was called; for CANARY_COUNT. */
static _Atomic uint64_t malloc_count, calloc_count, realloc_count, aligned_count, free_count;

static void count(_Atomic uint64_t *counter)
{
    if (BUG == CANARY_COUNT) atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

__attribute__((destructor)) static void canary_end(void)
{
    if (BUG != CANARY_COUNT) return;
    char text[256];
    const int length = snprintf(text, sizeof text, "canary: malloc %lu calloc %lu realloc %lu aligned %lu free %lu\n",
                                malloc_count, calloc_count, realloc_count, aligned_count, free_count);
    if (write(STDERR_FILENO, text, (size_t)length) != length) abort();
}

/* Undoes the 8 bytes that CANARY_MISALIGNED adds. */
static void *true_start(void *block)
{
    return BUG == CANARY_MISALIGNED && (uintptr_t)block % 16 == 8 ? (char *)block - 8 : block;
}

/* CANARY_LOST_REMOTE stores the number of the allocating thread in the last 8 bytes of libc's block. */
static size_t tag_bytes(void)
{
    return BUG == CANARY_LOST_REMOTE ? sizeof(uint64_t) : 0;
}

static uint64_t *tag_of(void *block)
{
    return (uint64_t *)(void *)((char *)block + libc_usable_size(block) - sizeof(uint64_t));
}

static uint64_t thread_number(void)
{
    if (own_number == 0) own_number = atomic_fetch_add(&thread_numbers, 1) + 1;
    return own_number;
}

static void *tagged(void *block)
{
    if (BUG == CANARY_LOST_REMOTE && block != NULL && armed) *tag_of(block) = thread_number();
    return block;
}

/* By the clock, so not where the block's neighbours decide what goes wrong: a trim changes who they are. */
static void trim_now_and_then(void)
{
    static _Atomic uint64_t last_ms;
    if (BUG == CANARY_RETAIN || BUG == CANARY_HEADER || !armed || ++frees % 64 != 0) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t before_ms = last_ms;
    if (now_ms < before_ms + 50 || !atomic_compare_exchange_strong(&last_ms, &before_ms, now_ms)) return;
    const int error = errno;
    malloc_trim(0);
    errno = error;
}

/* The part between two inaccessible pages becomes a separate mapping. */
static void leave_mapping(void)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED) mprotect(pages + PAGE, PAGE, PROT_READ);
}

/* The word in front of the block is the last word of its neighbour, which owns it while it lives. */
static void write_header(char *block, size_t size_bytes)
{
    size_t *words = (size_t *)(void *)block;
    const bool neighbour_lives = (words[-1] & 1) != 0, mapped_alone = (words[-1] & 2) != 0;
    if (neighbour_lives && !mapped_alone) words[-2] = size_bytes;
}

/* What goes wrong in one of PERIOD calls of malloc, after libc has given it a block. */
static void *spoil(char *block, size_t size_bytes)
{
    if (strike(CANARY_CONTENT) && size_bytes > 64) {
        if (watched != NULL) watched[40] ^= 1;
        watched = block;
    }
    if (strike(CANARY_HEADER)) write_header(block, size_bytes);
    if (strike(CANARY_MAPPINGS)) leave_mapping();
    if (BUG == CANARY_DOUBLE_HANDOUT) {
        const bool fits = last_block != NULL && libc_usable_size(last_block) >= size_bytes;
        if (fits && strike(BUG)) return last_block; /* the fresh block is lost */
        last_block = block;
    }
    return block;
}

void *malloc(size_t size_bytes)
{
    count(&malloc_count);
    if (strike(CANARY_OVERLAP) && size_bytes <= sizeof shared_block) return shared_block;
    if (strike(CANARY_MISALIGNED)) return (char *)__libc_malloc(size_bytes + 8) + 8;
    if (strike(CANARY_EXHAUSTED)) {
        errno = ENOMEM;
        return NULL;
    }
    while (strike(CANARY_HANG)) {
        calls = PERIOD - 1; /* again and again */
        sched_yield();
    }
    if (size_bytes > PTRDIFF_MAX && BUG == CANARY_ENOMEM) return NULL;
    if (size_bytes > PTRDIFF_MAX) return __libc_malloc(size_bytes);
    char *block = tagged(__libc_malloc(size_bytes + tag_bytes()));
    return block != NULL ? spoil(block, size_bytes) : NULL;
}

void free(void *block)
{
    count(&free_count);
    if (block == NULL || block == shared_block || BUG == CANARY_LEAK) return;
    if (BUG == CANARY_LEAK_SLOW && armed && ++calls % 100 == 0) return;
    if (BUG == CANARY_LEAK_RARE && armed && ++calls % 1000 == 0) return;
    if (BUG == CANARY_LOST_REMOTE && armed && *tag_of(block) != thread_number()) return;
    if (BUG == CANARY_CONTENT && block == watched) watched = NULL;
    if (block == last_block) last_block = NULL;
    if (strike(CANARY_CRASH)) abort();
    if (strike(CANARY_ERRNO)) errno = EINVAL;
    if (strike(CANARY_ERRNO_WAIT)) errno = EAGAIN;
    __libc_free(true_start(block));
    trim_now_and_then();
}

void *calloc(size_t elements, size_t size_bytes)
{
    count(&calloc_count);
    size_t bytes;
    if (__builtin_mul_overflow(elements, size_bytes, &bytes) || bytes > PTRDIFF_MAX)
        return __libc_calloc(elements, size_bytes);
    if (BUG == CANARY_CALLOC_DIRTY && armed && elements == 1) return __libc_malloc(bytes);
    char *block = tagged(__libc_calloc(1, bytes + tag_bytes()));
    if (strike(CANARY_CALLOC_ZERO) && block != NULL && bytes > 0) block[bytes - 1] = 1;
    return block;
}

size_t malloc_usable_size(void *block)
{
    if (block == NULL) return 0;
    if (block == shared_block) return sizeof shared_block;
    const size_t size_bytes = libc_usable_size(true_start(block)) - (true_start(block) != block ? 8 : 0) - tag_bytes();
    if (BUG == CANARY_USABLE_MORE) return size_bytes + 16;
    return strike(CANARY_USABLE_SIZE) && size_bytes > 128 ? size_bytes / 2 : size_bytes;
}

void *realloc(void *block, size_t size_bytes)
{
    count(&realloc_count);
    const bool not_libcs = block == shared_block || true_start(block) != block || BUG == CANARY_LOST_REMOTE;
    if (block != NULL && size_bytes <= PTRDIFF_MAX && not_libcs) {
        char *moved = malloc(size_bytes);
        const size_t old_bytes = malloc_usable_size(block);
        if (moved == NULL) return NULL;
        memcpy(moved, block, old_bytes < size_bytes ? old_bytes : size_bytes);
        free(block);
        return moved;
    }
    if (BUG == CANARY_CONTENT && block == watched) watched = NULL;
    if (block == last_block) last_block = NULL;
    const size_t old_bytes = block != NULL ? libc_usable_size(block) : 0;
    char *moved = __libc_realloc(block, block == NULL ? size_bytes + tag_bytes() : size_bytes);
    if (block == NULL) return tagged(moved);
    if (moved == NULL || size_bytes < 16) return moved;
    if (strike(CANARY_REALLOC_CONTENT)) moved[0] ^= 1;
    if (BUG == CANARY_REALLOC_SHRINK && size_bytes < old_bytes / 2) memset(moved + size_bytes - 8, 0, 8);
    return moved;
}

void *memalign(size_t align_bytes, size_t size_bytes)
{
    count(&aligned_count);
    if (size_bytes > PTRDIFF_MAX) return __libc_memalign(align_bytes, size_bytes);
    if (BUG == CANARY_ALIGNED_ALLOC || (BUG == CANARY_ALIGNED_LARGE && size_bytes >= 16384))
        return __libc_malloc(size_bytes);
    return tagged(__libc_memalign(align_bytes, size_bytes + tag_bytes()));
}
