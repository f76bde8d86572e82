/* reallocarray.c: calls realloc by its name, as libc's does. A program may have a malloc, realloc and free of its own and leave
 * this function to libc: then the block is the program's.
 *
 * Outside of LTO, which would bind the name to the library's realloc (see alloc/named.list). */
#include <stdlib.h>

#include "hakmem/hakmem.h"

__attribute__((visibility("default"))) void *reallocarray(void *block, size_t count, size_t size_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size_bytes, &bytes))
        return hak_reallocarray(block, count, size_bytes); /* refuses it */
    return realloc(block, bytes);
}
