/* Needs another library of the same kind, which is loaded before it and unloaded after it. */
#include "plugin.h"

#include <stdlib.h>

void *base_take(size_t size_bytes);
void base_give(void *block);

static void *kept;

__attribute__((constructor)) static void at_load(void)
{
    kept = base_take(5000);
}

__attribute__((destructor)) static void at_unload(void)
{
    base_give(kept);
}

void *plugin_take(size_t size_bytes)
{
    return base_take(size_bytes);
}

void plugin_give(void *block)
{
    base_give(block);
}

int plugin_use(void)
{
    void *block = base_take(64);
    base_give(block);
    return 0;
}
