/* Big thread-local memory of the dynamic model. libc allocates it from the subject at a thread's first touch, and frees
 * it when the thread ends or the library is unloaded. */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { TLS_BYTES = 48 << 10 };
static __thread unsigned char memory[TLS_BYTES] __attribute__((tls_model("global-dynamic")));
static __thread unsigned char uses __attribute__((tls_model("global-dynamic")));
static void *kept;

__attribute__((constructor)) static void at_load(void)
{
    void *passing = malloc(3000);
    kept = calloc(10, 100);
    free(passing);
}

__attribute__((destructor)) static void at_unload(void)
{
    free(kept);
    free(malloc(70000));
}

void *plugin_take(size_t size_bytes)
{
    return malloc(size_bytes);
}

void plugin_give(void *block)
{
    free(block);
}

int plugin_use(void)
{
    if (memory[0] != uses || memory[TLS_BYTES - 1] != uses) return 1; /* fresh: zero */
    ++uses;
    memset(memory, uses, sizeof memory);
    char *block = malloc(200);
    block = block != NULL ? realloc(block, 20000) : NULL;
    if (block == NULL) return 2;
    free(block);
    return 0;
}
