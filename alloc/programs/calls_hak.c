/* calls_hak.c: see calls.h. */
#include "programs/calls.h"

#include "hakmem/hakmem.h"

static size_t usable_size(void *block)
{
    return hak_malloc_usable_size(block);
}

const struct malloc_calls calls = {
    .is_libc = false,
    .malloc = hak_malloc,
    .calloc = hak_calloc,
    .realloc = hak_realloc,
    .reallocarray = hak_reallocarray,
    .free = hak_free,
    .aligned_alloc = hak_aligned_alloc,
    .posix_memalign = hak_posix_memalign,
    .usable_size = usable_size,
};
