/* A sound malloc in which blocks of 2000 to 3999 bytes take half as much again: for `shrink --keep`. */
#include <stddef.h>

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);

void *malloc(size_t size_bytes)
{
    return __libc_malloc(size_bytes >= 2000 && size_bytes < 4000 ? size_bytes + size_bytes / 2 : size_bytes);
}

void free(void *block)
{
    __libc_free(block);
}

void *calloc(size_t count, size_t size_bytes)
{
    return __libc_calloc(count, size_bytes);
}

void *realloc(void *block, size_t size_bytes)
{
    return __libc_realloc(block, size_bytes);
}
