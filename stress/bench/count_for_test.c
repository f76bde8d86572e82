/* A preloaded library that counts calls of malloc, and calls of free with a block, and prints both to stderr when the
 * program ends. It tests whether a row does as many pairs as it says. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);

static atomic_ulong mallocs, frees;

void *malloc(size_t size_bytes)
{
    /* relaxed: the program's threads have ended when the counts are read. */
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    return __libc_malloc(size_bytes);
}

void free(void *block)
{
    if (block != NULL) atomic_fetch_add_explicit(&frees, 1, memory_order_relaxed);
    __libc_free(block);
}

__attribute__((destructor)) static void print(void)
{
    fprintf(stderr, "%lu %lu\n", atomic_load_explicit(&mallocs, memory_order_relaxed),
            atomic_load_explicit(&frees, memory_order_relaxed));
}
