/* os_pages.c: see os_pages.h. Tests only: not a part of any library. */
#include "os/os_pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "os/os.h"

static size_t large_bytes;

static void check(const char *call, const void *start, size_t size_bytes)
{
    if ((uintptr_t)start % large_bytes == 0 && size_bytes % large_bytes == 0 && size_bytes > 0) return;
    static const char text[] = ": the range is not of whole pages\n";
    os_write_error(call, strlen(call));
    os_write_error(text, sizeof text - 1);
    abort();
}

static void *pages_reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    check("reserve", at, size_bytes);
    return os_linux_ops.reserve(at, size_bytes, align_bytes);
}

static void *pages_map(void *at, size_t size_bytes, size_t align_bytes)
{
    check("map", at, size_bytes);
    return os_linux_ops.map(at, size_bytes, align_bytes);
}

/* The calls of a range alone. */
#define RANGE_CALLS(X) X(expose) X(commit) X(purge) X(seal) X(release)
#define X(call)                                             \
    static int pages_##call(void *start, size_t size_bytes) \
    {                                                       \
        check(#call, start, size_bytes);                    \
        return os_linux_ops.call(start, size_bytes);        \
    }
RANGE_CALLS(X)
#undef X

static int pages_grow(void *start, size_t old_bytes, size_t new_bytes)
{
    check("grow", start, old_bytes);
    check("grow", start, new_bytes);
    return os_linux_ops.grow(start, old_bytes, new_bytes);
}

static int pages_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    check("move", start, old_bytes);
    check("move", target, new_bytes);
    return os_linux_ops.move(start, old_bytes, target, new_bytes);
}

static size_t pages_page_bytes(void)
{
    return large_bytes;
}

static const struct os_ops pages_ops = {
    .reserve = pages_reserve,
    .map = pages_map,
    .expose = pages_expose,
    .commit = pages_commit,
    .purge = pages_purge,
    .seal = pages_seal,
    .release = pages_release,
    .grow = pages_grow,
    .move = pages_move,
    .page_bytes = pages_page_bytes,
};

void os_pages_install(size_t page_bytes)
{
    if (page_bytes < os_linux_ops.page_bytes() || page_bytes > PAGE_BYTES || (page_bytes & (page_bytes - 1)) != 0)
        abort();
    large_bytes = page_bytes;
    os = &pages_ops;
}

__attribute__((constructor(101))) static void install_if_asked(void)
{
    const char *text = getenv("HAKMEM_TEST_PAGE_BYTES");
    if (text != NULL) os_pages_install(strtoul(text, NULL, 10));
}
