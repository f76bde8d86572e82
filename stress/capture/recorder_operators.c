/* C++'s new and delete for the recorder. A malloc library that defines them itself would otherwise serve them past the
 * recorder. They call the recorder's malloc, memalign and free. Where that has no memory, the next library's operator
 * decides: it calls the new-handler and throws. Also valloc and pvalloc, by way of the recorder's memalign. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define NEXT(name, type) ((type)dlsym(RTLD_NEXT, #name))

#define NEW(name)                                                                 \
    void *name(size_t size_bytes);                                                \
    void *name(size_t size_bytes)                                                 \
    {                                                                             \
        void *start = malloc(size_bytes);                                         \
        return start != NULL ? start : NEXT(name, void *(*)(size_t))(size_bytes); \
    }
#define NEW_NOTHROW(name)                                                                            \
    void *name(size_t size_bytes, const void *tag);                                                  \
    void *name(size_t size_bytes, const void *tag)                                                   \
    {                                                                                                \
        void *start = malloc(size_bytes);                                                            \
        return start != NULL ? start : NEXT(name, void *(*)(size_t, const void *))(size_bytes, tag); \
    }
#define NEW_ALIGNED(name)                                                                              \
    void *name(size_t size_bytes, size_t align_bytes);                                                 \
    void *name(size_t size_bytes, size_t align_bytes)                                                  \
    {                                                                                                  \
        void *start = memalign(align_bytes, size_bytes);                                               \
        return start != NULL ? start : NEXT(name, void *(*)(size_t, size_t))(size_bytes, align_bytes); \
    }
#define NEW_ALIGNED_NOTHROW(name)                                       \
    void *name(size_t size_bytes, size_t align_bytes, const void *tag); \
    void *name(size_t size_bytes, size_t align_bytes, const void *tag)  \
    {                                                                   \
        (void)tag;                                                      \
        return memalign(align_bytes, size_bytes);                       \
    }
#define DELETE(name) void name(void *start) __attribute__((alias("release")));

NEW(_Znwm)
NEW(_Znam)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
NEW_NOTHROW(_ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

/* Sizes, alignments and tags behind the block are ignored. */
static void release(void *start)
{
    free(start);
}

DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm)
DELETE(_ZdaPvm)
DELETE(_ZdlPvRKSt9nothrow_t)
DELETE(_ZdaPvRKSt9nothrow_t)
DELETE(_ZdlPvSt11align_val_t)
DELETE(_ZdaPvSt11align_val_t)
DELETE(_ZdlPvmSt11align_val_t)
DELETE(_ZdaPvmSt11align_val_t)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t)

void *valloc(size_t size_bytes)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size_bytes);
}

void *pvalloc(size_t size_bytes)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return memalign(page_bytes, (size_bytes + page_bytes - 1) / page_bytes * page_bytes);
}
