/* reallocarray.c: calls realloc by its name, as libc's does. A program may have a malloc, realloc and free of its own and leave
 * this function to libc: then the block is the program's. But if a call by name does not come here, who calls it has looked for
 * it in this library, and has a block of ours.
 *
 * Outside of LTO, which would bind the names within the library (see alloc/named.list). */
#include <stdlib.h>

#include "base/policy.h"
#include "hakmem/hakmem.h"

#define OVERRIDE __attribute__((visibility("default")))

OVERRIDE void *reallocarray(void *block, size_t count, size_t size_bytes);

/* This function: a label, which no other definition hides. */
__asm__(".set label_reallocarray, reallocarray");
extern __attribute__((visibility("hidden"))) const char label_reallocarray[];

OVERRIDE void *reallocarray(void *block, size_t count, size_t size_bytes)
{
    size_t bytes;
    void *(*volatile const named)(void *, size_t, size_t) = reallocarray;
    if (__builtin_mul_overflow(count, size_bytes, &bytes) || (const char *)named != label_reallocarray)
        return hak_reallocarray(block, count, size_bytes); /* refuses what does not fit */
    return realloc(block, bytes);
}
