/* Thread-local memory of the initial-exec model, which must fit into the little that libc reserves for libraries that
 * are loaded late. A malloc that has used it up breaks such libraries. */
#include "plugin.h"

#include <stdlib.h>

enum { TLS_BYTES = 256 };
static __thread unsigned char memory[TLS_BYTES] __attribute__((tls_model("initial-exec")));
static void *kept[64];

__attribute__((constructor)) static void at_load(void)
{
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) kept[i] = malloc(i * i * 16);
}

__attribute__((destructor)) static void at_unload(void)
{
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) free(kept[i]);
}

void *plugin_take(size_t size_bytes)
{
    return calloc(1, size_bytes);
}

void plugin_give(void *block)
{
    free(realloc(block, 10));
}

int plugin_use(void)
{
    if (memory[0] != memory[TLS_BYTES - 1]) return 1;
    ++memory[0];
    memory[TLS_BYTES - 1] = memory[0];
    return 0;
}
