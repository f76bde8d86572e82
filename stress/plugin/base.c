/* The library that dependent.c needs. */
#include <stdlib.h>

static void *kept;

__attribute__((constructor)) static void at_load(void)
{
    kept = malloc(100);
}

__attribute__((destructor)) static void at_unload(void)
{
    free(kept);
}

void *base_take(size_t size_bytes)
{
    return malloc(size_bytes);
}

void base_give(void *block)
{
    free(block);
}
