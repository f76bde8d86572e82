/* leak.c: SIZE COUNT [SMALLER | frees]: loses blocks, every other one of which points to the one before; with SMALLER as many of
 * this size before, at another place; with "frees" beside blocks that are freed, so that some lie where a freed one did. With
 * HAKMEM_FAILFAST_LEAKS=1. */
#include <stdbool.h>

#include "misuse.h"

static char *volatile last;
static bool frees;

static __attribute__((noinline)) void lose(size_t size, long count)
{
    for (long i = 0; i < count; i++) {
        char *block = allocate(size);
        *(char **)(void *)block = i % 2 == 0 ? NULL : last;
        last = block;
        if (frees) free(allocate(size));
    }
    last = NULL;
}

/* Far down the stack, so that no pointer to a block is left where the end of the process looks. */
static __attribute__((noinline)) void lose_deep(size_t size, long count)
{
    char bytes[65536];
    opaque(bytes);
    lose(size, count);
    for (int i = 0; i < 10; i++)
        free(allocate(size)); /* overwrites what malloc has left in registers and on the stack */
    opaque(bytes);
}

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1);
    long count = number(argc, argv, 2);
    frees = argc > 3 && strcmp(argv[3], "frees") == 0;
    size_t smaller = argc > 3 && !frees ? size_argument(argc, argv, 3) : 0;
    char words[80], share[16] = "";
    if (smaller != 0) snprintf(share, sizeof share, " (%zu%%)", size * 100 / (size + smaller));
    snprintf(words, sizeof words, "%ld blocks, %zu bytes%s, to which nothing points", count, size * (size_t)count,
             share);
    expect(NULL, words);
    if (smaller != 0) lose_deep(smaller, count);
    lose_deep(size, count);
    return went_on();
}
