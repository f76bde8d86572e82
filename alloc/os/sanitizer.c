/* sanitizer.c: see sanitizer.h. */
/* unreached file: of a sanitizer's tree: the tests of asan, tsan and msan reach it */
#include "os/sanitizer.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"
#include "base/hooks.h"
#include "os/call.h"

#if HAK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif
#if HAK_SANITIZE_MEMORY
#include <sanitizer/msan_interface.h>
#endif

enum {
    WIDE_BYTES = 1 << 20,        /* shadow of ranges this long is given back to the system, not written */
    REDZONE_BYTES_MAX = 1 << 20, /* the farthest that a redzone is written: no overflow reaches further */
    FRESH_BYTES_MAX = 1 << 28,   /* MemorySanitizer's shadow is as large as the memory */
};

/* --- AddressSanitizer -------------------------------------------------------------------------------- */

#if HAK_SANITIZE_ADDRESS

/* Opens a long range: gives the whole pages of its shadow back to the system. They then read as zero, which means
 * open. */
static void open_wide(const char *start, size_t bytes)
{
    size_t scale, offset, page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    __asan_get_shadow_mapping(&scale, &offset);
    uintptr_t first = round_up(((uintptr_t)start >> scale) + offset + 1, page_bytes);
    uintptr_t end = (((uintptr_t)(start + bytes) >> scale) + offset) & ~(page_bytes - 1);
    bool gone = first < end && call_madvise((void *)first, end - first, MADV_DONTNEED) == 0;
    if (!gone) {
        __asan_unpoison_memory_region(start, bytes);
        return;
    }
    const char *first_open = (const char *)((first - offset) << scale);
    const char *end_open = (const char *)((end - offset) << scale);
    __asan_unpoison_memory_region(start, (size_t)(first_open - start));
    __asan_unpoison_memory_region(end_open, (size_t)(start + bytes - end_open));
}

void sanitizer_open(const void *start, size_t bytes)
{
    if (bytes < WIDE_BYTES) {
        __asan_unpoison_memory_region(start, bytes);
    } else {
        open_wide(start, bytes);
    }
}

void sanitizer_close(void *start, size_t bytes)
{
    __asan_poison_memory_region(start, bytes);
}
bool sanitizer_is_open(const void *address)
{
    return __asan_address_is_poisoned(address) == 0;
}

size_t sanitizer_open_bytes(const void *start, size_t bytes)
{
    const char *first_closed = __asan_region_is_poisoned((void *)(uintptr_t)start, bytes);
    return first_closed == NULL ? bytes : (size_t)(first_closed - (const char *)start);
}

void sanitizer_root(void *start, size_t bytes)
{
    __lsan_register_root_region(start, bytes);
}
void sanitizer_unroot(void *start, size_t bytes)
{
    __lsan_unregister_root_region(start, bytes);
}

/* The sanitizer's runtime calls this before it prints a report. */
__attribute__((visibility("default"))) void __asan_on_error(void)
{
    hooks.sanitizer_report(__asan_get_report_address());
}

#else

void sanitizer_open(const void *start, size_t bytes)
{
    (void)start, (void)bytes;
}
void sanitizer_close(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}
bool sanitizer_is_open(const void *address)
{
    return address != NULL;
}
size_t sanitizer_open_bytes(const void *start, size_t bytes)
{
    return (void)start, bytes;
}
void sanitizer_root(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}
void sanitizer_unroot(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}

#endif

/* --- ThreadSanitizer --------------------------------------------------------------------------------- */

#if HAK_SANITIZE_THREAD

/* A function of the runtime that compilers call; no header declares it. The type is the one that gcc expects; the
 * runtime itself takes the size as unsigned. */
extern void __tsan_write_range(void *start, long bytes);

static void write_imagined(char *start, size_t bytes)
{
    __tsan_write_range(start, (long)(bytes < SANITIZER_RACE_BYTES ? bytes : SANITIZER_RACE_BYTES));
}

#else

static void write_imagined(char *start, size_t bytes)
{
    (void)start, (void)bytes;
}

#endif

/* --- MemorySanitizer --------------------------------------------------------------------------------- */

#if HAK_SANITIZE_MEMORY

void sanitizer_fresh(void *start, size_t bytes)
{
    __msan_allocated_memory(start, bytes < FRESH_BYTES_MAX ? bytes : FRESH_BYTES_MAX);
}

void sanitizer_zeroed(void *start, size_t bytes)
{
    __msan_unpoison(start, bytes);
}

#else

void sanitizer_fresh(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}
void sanitizer_zeroed(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}

#endif

/* --- blocks ------------------------------------------------------------------------------------------ */

/* For AddressSanitizer: opens [user, user + size_bytes) and closes the rest of the block. */
static void open_only(char *start, size_t bytes, char *user, size_t size_bytes)
{
    if (size_bytes == 0) size_bytes = 1;
    char *end = start + bytes, *user_end = user + size_bytes;
    size_t before = (size_t)(user - start), behind = (size_t)(end - user_end);
    if (before > REDZONE_BYTES_MAX) before = REDZONE_BYTES_MAX;
    if (behind > REDZONE_BYTES_MAX) behind = -(uintptr_t)user_end % GRANULE_BYTES + REDZONE_BYTES_MAX;
    sanitizer_close(user - before, before);
    sanitizer_close(user_end, behind);
    sanitizer_open(user, size_bytes);
}

void sanitizer_given(char *start, size_t bytes, char *user, size_t size_bytes)
{
    if (ASAN) open_only(start, bytes, user, size_bytes);
    if (TSAN) write_imagined(user, size_bytes);
    if (MSAN) sanitizer_fresh(start, bytes);
}

void sanitizer_resized(char *start, size_t bytes, char *user, size_t size_bytes)
{
    if (ASAN) open_only(start, bytes, user, size_bytes);
    if (MSAN) sanitizer_fresh(user + size_bytes, (size_t)(start + bytes - user) - size_bytes);
}

void sanitizer_returned(char *start, size_t bytes)
{
    if (ASAN) sanitizer_close(start, bytes);
    if (TSAN) write_imagined(start, bytes);
}
