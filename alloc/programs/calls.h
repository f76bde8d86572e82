/* calls.h: the malloc that a C test program drives, as a table of calls. So one program can be linked with a heap
 * beside libc's malloc (calls_hak.c), and with one that replaces it (calls_malloc.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct malloc_calls {
    bool is_libc; /* libc itself allocates from it too */
    void *(*malloc)(size_t size_bytes);
    void *(*calloc)(size_t count, size_t size_bytes);
    void *(*realloc)(void *block, size_t size_bytes);
    void *(*reallocarray)(void *block, size_t count, size_t size_bytes);
    void (*free)(void *block);
    void *(*aligned_alloc)(size_t align_bytes, size_t size_bytes);
    int (*posix_memalign)(void **block, size_t align_bytes, size_t size_bytes);
    size_t (*usable_size)(void *block);
};

extern const struct malloc_calls calls;
