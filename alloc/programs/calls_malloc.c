/* calls_malloc.c: see calls.h. */
#include "programs/calls.h"

#include <malloc.h>
#include <stdlib.h>

const struct malloc_calls calls = {
    .is_libc = true,
    .malloc = malloc,
    .calloc = calloc,
    .realloc = realloc,
    .reallocarray = reallocarray,
    .free = free,
    .aligned_alloc = aligned_alloc,
    .posix_memalign = posix_memalign,
    .usable_size = malloc_usable_size,
};
