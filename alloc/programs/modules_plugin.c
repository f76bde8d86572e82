/* modules_plugin.c: a library that modules_program.c loads, and the tests take apart. Two are made of it, with the same
 * layout but another NAME, so that one fits exactly where the other was. */
#include <stdlib.h>
#include <string.h>

#define CONCATENATE_(a, b) a##b
#define CONCATENATE(a, b) CONCATENATE_(a, b)
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void *CONCATENATE(NAME, _allocates)(size_t size_bytes)
{
    char *block = malloc(size_bytes);
    if (block != NULL) memset(block, VALUE, size_bytes); /* after the call, so that it is no jump */
    return block;
}

void *plugin_keeps(size_t size_bytes)
{
    char *block = CONCATENATE(NAME, _allocates)(size_bytes);
    if (block != NULL) block[0] = VALUE;
    return block;
}
