/* The aligned calls for the canaries, made from the library's own memalign. */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return memalign(align_bytes, size_bytes);
}

int posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    const int before = errno;
    void *fresh = memalign(align_bytes, size_bytes);
    errno = before;
    if (fresh == NULL) return ENOMEM;
    *block = fresh;
    return 0;
}
