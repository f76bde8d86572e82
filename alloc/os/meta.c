/* meta.c: bump allocation from ranges of 1 MiB, of less once the system refuses that. The rest of a range is lost when the
 * next one begins; that is little, since requests are small against a range. */
#include "os/meta.h"

#include "base/bits.h"
#include "base/config.h"
#include "os/lock.h"
#include "os/os.h"

enum { META_RANGE_BYTES = 1 << 20 };

static char *meta_next;
static size_t meta_left_bytes;
static bool is_frugal;

static bool range_begin(size_t size_bytes)
{
    const size_t least_bytes = round_up(size_bytes, PAGE_BYTES);
    size_t range_bytes = is_frugal ? least_bytes : META_RANGE_BYTES;
    char *range = os->map(NULL, range_bytes, PAGE_BYTES);
    if (range == NULL && !is_frugal) range = os->map(NULL, range_bytes = least_bytes, PAGE_BYTES);
    if (range == NULL) return false;
    meta_next = range;
    meta_left_bytes = range_bytes;
    return true;
}

void *meta_alloc(size_t size_bytes)
{
    size_bytes = round_up(size_bytes, META_LINE_BYTES);
    if (size_bytes > META_RANGE_BYTES / 8) return os->map(NULL, round_up(size_bytes, PAGE_BYTES), PAGE_BYTES);

    if (lock_acquire(LOCK_META)) meta_left_bytes = 0; /* the lock is torn: begin a new range */
    void *start = NULL;
    if (size_bytes <= meta_left_bytes || range_begin(size_bytes)) {
        start = meta_next;
        meta_next += size_bytes;
        meta_left_bytes -= size_bytes;
    }
    lock_release(LOCK_META);
    return start;
}

void meta_be_frugal(bool yes)
{
    if (lock_acquire(LOCK_META)) meta_left_bytes = 0;
    is_frugal = yes;
    const size_t whole_bytes = yes ? meta_left_bytes & -os_page_bytes() : 0; /* the range's end is the end of a page */
    if (whole_bytes > 0 && os->release(meta_next + meta_left_bytes - whole_bytes, whole_bytes) == 0)
        meta_left_bytes -= whole_bytes;
    lock_release(LOCK_META);
}
