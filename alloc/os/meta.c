/* meta.c: bump allocation from ranges of 1 MiB. The rest of a range is lost when the next one begins; that is little,
 * since requests are small against a range. */
#include "os/meta.h"

#include "base/bits.h"
#include "base/config.h"
#include "os/lock.h"
#include "os/os.h"

enum { META_RANGE_BYTES = 1 << 20 };

static char *meta_next;
static size_t meta_left_bytes;

void *meta_alloc(size_t size_bytes)
{
    size_bytes = round_up(size_bytes, META_LINE_BYTES);
    if (size_bytes > META_RANGE_BYTES / 8) return os->map(NULL, round_up(size_bytes, PAGE_BYTES), PAGE_BYTES);

    if (lock_acquire(LOCK_META)) meta_left_bytes = 0; /* the lock is torn: begin a new range */
    if (size_bytes > meta_left_bytes) {
        char *range = os->map(NULL, META_RANGE_BYTES, PAGE_BYTES);
        if (range == NULL) {
            lock_release(LOCK_META);
            return NULL;
        }
        meta_next = range;
        meta_left_bytes = META_RANGE_BYTES;
    }
    void *start = meta_next;
    meta_next += size_bytes;
    meta_left_bytes -= size_bytes;
    lock_release(LOCK_META);
    return start;
}
