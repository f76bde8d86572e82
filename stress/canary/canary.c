/* A malloc with one planted bug, to prove that the suite finds it. It forwards to libc and goes wrong
 * now and then, as CANARY_BUG says. CANARY_NONE must pass: the bug is found, not the forwarding. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum bug {
    CANARY_NONE,
    CANARY_OVERLAP,         /* hands one block out again and again */
    CANARY_MISALIGNED,      /* malloc off by 8 */
    CANARY_ALIGNED_ALLOC,   /* aligned_alloc and posix_memalign ignore the alignment */
    CANARY_CONTENT,         /* writes into a live block */
    CANARY_REALLOC_CONTENT, /* realloc loses a byte */
    CANARY_CALLOC_ZERO,     /* the last byte of a calloc block is not zero */
    CANARY_USABLE_SIZE,     /* malloc_usable_size says too little */
    CANARY_ERRNO,           /* free changes errno */
    CANARY_ENOMEM,          /* failure leaves errno alone */
    CANARY_LEAK,            /* free does nothing */
    CANARY_EXHAUSTED,       /* malloc gives up now and then */
    CANARY_HANG,            /* malloc does not return */
    CANARY_CRASH,           /* free aborts */
};

static const enum bug BUG = CANARY_BUG;

enum { PERIOD = 997 };

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);

static _Thread_local unsigned calls __attribute__((tls_model("initial-exec")));
static char shared_block[4096] __attribute__((aligned(4096)));
static char *watched; /* a live block that CANARY_CONTENT writes into */
static size_t (*libc_usable_size)(void *block);

/* Nothing goes wrong before the program itself runs: the loader has called malloc by then. */
static bool armed;

__attribute__((constructor)) static void canary_start(void)
{
    *(void **)&libc_usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
    armed = true;
}

static bool strike(enum bug bug)
{
    return BUG == bug && armed && ++calls % PERIOD == 0;
}

/* CANARY_MISALIGNED moved the block by 8. */
static void *true_start(void *block)
{
    return BUG == CANARY_MISALIGNED && (uintptr_t)block % 16 == 8 ? (char *)block - 8 : block;
}

void *malloc(size_t size_bytes)
{
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
    const int before = errno;
    char *block = __libc_malloc(size_bytes);
    if (BUG == CANARY_ENOMEM && block == NULL) errno = before;
    if (strike(CANARY_CONTENT) && block != NULL && size_bytes > 64) {
        if (watched != NULL) watched[40] ^= 1;
        watched = block;
    }
    return block;
}

void free(void *block)
{
    if (BUG == CANARY_LEAK || block == shared_block) return;
    if (BUG == CANARY_CONTENT && block == watched) watched = NULL;
    if (strike(CANARY_CRASH)) abort();
    if (strike(CANARY_ERRNO)) errno = EINVAL;
    __libc_free(true_start(block));
}

void *calloc(size_t count, size_t size_bytes)
{
    char *block = __libc_calloc(count, size_bytes);
    if (strike(CANARY_CALLOC_ZERO) && block != NULL && count * size_bytes > 0) block[count * size_bytes - 1] = 1;
    return block;
}

size_t malloc_usable_size(void *block)
{
    if (block == shared_block) return sizeof shared_block;
    const size_t size_bytes = libc_usable_size(true_start(block)) - (true_start(block) != block ? 8 : 0);
    return strike(CANARY_USABLE_SIZE) && size_bytes > 128 ? size_bytes / 2 : size_bytes;
}

void *realloc(void *block, size_t size_bytes)
{
    if (block == shared_block || true_start(block) != block) { /* not libc's to move */
        char *moved = __libc_malloc(size_bytes);
        const size_t old_bytes = malloc_usable_size(block);
        if (moved == NULL) return NULL;
        memcpy(moved, block, old_bytes < size_bytes ? old_bytes : size_bytes);
        free(block);
        return moved;
    }
    if (BUG == CANARY_CONTENT && block == watched) watched = NULL;
    char *moved = __libc_realloc(block, size_bytes);
    if (strike(CANARY_REALLOC_CONTENT) && moved != NULL && size_bytes > 0) moved[0] ^= 1;
    return moved;
}

void *memalign(size_t align_bytes, size_t size_bytes)
{
    return BUG == CANARY_ALIGNED_ALLOC ? __libc_malloc(size_bytes) : __libc_memalign(align_bytes, size_bytes);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return memalign(align_bytes, size_bytes);
}

int posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    const int before = errno;
    void *fresh = memalign(align_bytes, size_bytes);
    errno = before;
    if (fresh == NULL) return ENOMEM;
    *block = fresh;
    return 0;
}
