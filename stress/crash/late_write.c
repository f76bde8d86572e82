/* late_write.c: a malloc that passes calls to the next one, normally libhakmem, with one planted bug: a block of 48
 * bytes or more that is freed after many others is written to afterwards. For runs of the suite that must crash. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { STRIKES_AT = 3000 };

/* The next definition of a function; looked up at the first call. */
#define NEXT(type, name) (*__extension__(type *) look_up(&next_##name, #name))

static void *next_malloc, *next_calloc, *next_realloc, *next_free, *next_malloc_usable_size;

static void **look_up(void **place, const char *name)
{
    if (__atomic_load_n(place, __ATOMIC_RELAXED) == NULL)
        __atomic_store_n(place, dlsym(RTLD_NEXT, name), __ATOMIC_RELAXED);
    return place;
}

typedef void *(*of_size)(size_t);
typedef void *(*of_two)(size_t, size_t);
typedef void *(*of_block)(void *, size_t);
typedef size_t (*measure)(void *);
typedef void (*of_pointer)(void *);

static atomic_uint frees;

__attribute__((noinline)) static void write_late(uint64_t *block)
{
    block[0] = 0x6c617465; /* guilty */
}

void *malloc(size_t size_bytes)
{
    return NEXT(of_size, malloc)(size_bytes);
}

void *calloc(size_t count, size_t size_bytes)
{
    return NEXT(of_two, calloc)(count, size_bytes);
}

void *realloc(void *block, size_t size_bytes)
{
    return NEXT(of_block, realloc)(block, size_bytes);
}

size_t malloc_usable_size(void *block)
{
    return NEXT(measure, malloc_usable_size)(block);
}

void free(void *block)
{
    size_t usable_bytes = block == NULL ? 0 : malloc_usable_size(block);
    NEXT(of_pointer, free)(block);
    if (usable_bytes >= 48 && usable_bytes <= 512 && atomic_fetch_add(&frees, 1) == STRIKES_AT) write_late(block);
}
