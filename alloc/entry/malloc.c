/* malloc.c: malloc, free and their relatives, under the names of ISO C, POSIX, glibc and the BSDs. They are an object
 * file of their own, so that a program can link the heap without replacing its malloc. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/config.h"
#include "hakmem/hakmem.h"
#include "os/libc.h"

#define OVERRIDE __attribute__((visibility("default")))
/* A hit begins a cache line of code, wherever the linker puts what is before it. */
#define HIT __attribute__((aligned(CACHE_LINE_BYTES)))

/* Prototypes of functions that libc's headers do not declare, or not in every version. */
OVERRIDE void cfree(void *block);
OVERRIDE void free_sized(void *block, size_t size_bytes);
OVERRIDE void free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes);
int hak_private_lock_all(int flags); /* entry/api.c */

OVERRIDE HIT void *malloc(size_t size_bytes)
{
    return hak_malloc(size_bytes);
}
OVERRIDE void *calloc(size_t count, size_t size_bytes)
{
    return hak_calloc(count, size_bytes);
}
OVERRIDE void *realloc(void *block, size_t size_bytes)
{
    return hak_realloc(block, size_bytes);
}
OVERRIDE HIT void free(void *block)
{
    hak_free(block);
}
OVERRIDE void cfree(void *block)
{
    hak_free(block);
}

OVERRIDE void free_sized(void *block, size_t size_bytes)
{
    hak_free_sized(block, size_bytes);
}

OVERRIDE void free_aligned_sized(void *block, size_t align_bytes, size_t size_bytes)
{
    hak_free_aligned_sized(block, align_bytes, size_bytes);
}

OVERRIDE void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    return hak_aligned_alloc(align_bytes, size_bytes);
}

OVERRIDE void *memalign(size_t align_bytes, size_t size_bytes)
{
    return hak_memalign(align_bytes, size_bytes);
}

OVERRIDE int posix_memalign(void **block, size_t align_bytes, size_t size_bytes)
{
    return hak_posix_memalign(block, align_bytes, size_bytes);
}

OVERRIDE void *valloc(size_t size_bytes)
{
    return hak_valloc(size_bytes);
}
OVERRIDE void *pvalloc(size_t size_bytes)
{
    return hak_pvalloc(size_bytes);
}
OVERRIDE size_t malloc_usable_size(void *block)
{
    return hak_malloc_usable_size(block);
}

/* --- glibc's controls ------------------------------------------------------------------------------- */

OVERRIDE int malloc_trim(size_t pad_bytes)
{
    (void)pad_bytes; /* for heaps that grow and shrink at their end; ours does not */
    return hak_purge_all() > 0;
}

/* Not a cancellation point: everything is printed before a cancelled thread ends. */
OVERRIDE void malloc_stats(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    hak_stats_print(stderr);
    pthread_setcancelstate(state, NULL);
}

/* Returns 1 (success) for any parameter, as glibc does. The things that it would tune do not exist here, and a program
 * that sets one should not see a failure. */
OVERRIDE int mallopt(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 1;
}

OVERRIDE struct mallinfo2 mallinfo2(void)
{
    struct hak_stats stats;
    hak_stats_get(&stats);
    size_t used_bytes = stats.small_bytes - stats.small_cached_bytes + stats.run_bytes;
    size_t huge_bytes = stats.huge_bytes + stats.huge_cached_bytes;
    size_t arena_bytes = stats.reserved_bytes > huge_bytes ? stats.reserved_bytes - huge_bytes : 0;
    return (struct mallinfo2){
        .arena = arena_bytes,
        .hblks = stats.huge_count,
        .hblkhd = stats.huge_bytes, /* as in glibc, not in uordblks too */
        .uordblks = used_bytes,
        /* Other threads run while the figures are read, so used_bytes may exceed arena_bytes. */
        .fordblks = arena_bytes > used_bytes ? arena_bytes - used_bytes : 0,
        .keepcost = stats.dirty_bytes + stats.huge_cached_bytes,
    };
}

static int as_int(size_t value)
{
    return value < (size_t)INT_MAX ? (int)value : INT_MAX;
}

OVERRIDE struct mallinfo mallinfo(void)
{
    struct mallinfo2 wide = mallinfo2();
    return (struct mallinfo){
        .arena = as_int(wide.arena),
        .hblks = as_int(wide.hblks),
        .hblkhd = as_int(wide.hblkhd),
        .uordblks = as_int(wide.uordblks),
        .fordblks = as_int(wide.fordblks),
        .keepcost = as_int(wide.keepcost),
    };
}

/* The last four elements are those of glibc that programs look for: bytes that are free, in mappings of their own, and in all. */
OVERRIDE int malloc_info(int options, FILE *stream)
{
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct hak_stats stats;
    hak_stats_get(&stats);
    const struct mallinfo2 info = mallinfo2();
    int written =
        fprintf(stream,
                "<malloc version=\"hakmem-1\">\n"
                "<heap count=\"%zu\" orphans=\"%zu\"/>\n"
                "<reserved size=\"%zu\"/>\n"
                "<slabs size=\"%zu\" used=\"%zu\" cached=\"%zu\"/>\n"
                "<runs size=\"%zu\"/>\n"
                "<huge size=\"%zu\" cached=\"%zu\"/>\n"
                "<dirty size=\"%zu\"/>\n"
                "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                "<system type=\"current\" size=\"%zu\"/>\n"
                "</malloc>\n",
                stats.heap_count, stats.orphan_count, stats.reserved_bytes, stats.slab_bytes, stats.small_bytes,
                stats.small_cached_bytes, stats.run_bytes, stats.huge_bytes, stats.huge_cached_bytes, stats.dirty_bytes,
                info.fordblks, info.hblks, info.hblkhd, info.arena);
    return written < 0 ? -1 : 0;
}

/* --- glibc's other names ---------------------------------------------------------------------------- */

/* glibc exports its malloc under these names too. A program whose own malloc is a wrapper calls them, and its free then gets
 * the blocks of every function that it does not wrap. glibc has four more: `cfree`, above; __libc_reallocarray, which calls
 * realloc by its name, as reallocarray.c does; __libc_mallopt and __libc_mallinfo, which touch no block. */
OVERRIDE LIBC_OTHER_NAME(void *, malloc, size_t size_bytes);
OVERRIDE LIBC_OTHER_NAME(void *, calloc, size_t count, size_t size_bytes);
OVERRIDE LIBC_OTHER_NAME(void *, realloc, void *block, size_t size_bytes);
OVERRIDE LIBC_OTHER_NAME(void, free, void *block);
OVERRIDE LIBC_OTHER_NAME(void *, memalign, size_t align_bytes, size_t size_bytes);
OVERRIDE LIBC_OTHER_NAME(void *, valloc, size_t size_bytes);
OVERRIDE LIBC_OTHER_NAME(void *, pvalloc, size_t size_bytes);

/* --- locked memory ---------------------------------------------------------------------------------- */

/* The system counts all address space of the process from here on, and has the whole of each later mapping in memory. Only
 * here can the heap learn of it. */
OVERRIDE int mlockall(int flags)
{
    const int error = hak_private_lock_all(flags);
    if (error == 0) return 0;
    errno = error;
    return -1;
}
