/* loading_wrapper.c: preloaded beside a malloc, as a tracer is: it wraps the calls of the next malloc, and allocates in
 * its constructor. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *kept;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t size_bytes)
{
    return NEXT(malloc)(size_bytes);
}

void *realloc(void *block, size_t size_bytes)
{
    return NEXT(realloc)(block, size_bytes);
}

void free(void *block)
{
    NEXT(free)(block);
}

__attribute__((constructor)) static void begin(void)
{
    kept = strdup("allocated while the process starts");
}

__attribute__((destructor)) static void end(void)
{
    free(kept);
}
