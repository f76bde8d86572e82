/* resident.c: see resident.h. Uses the ioctl PAGEMAP_SCAN (Linux 6.7), which skips pages without memory in long steps,
 * or on older kernels mincore, which looks at every page. */
#include "explore/inside/resident.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    SYSTEM_PAGE_BYTES = 4096,
    LOOK_PAGES = 1024, /* by one mincore */
    PAGE_PRESENT = 1 << 3, /* PAGE_IS_PRESENT and PAGE_IS_SWAPPED of <linux/fs.h> */
    PAGE_SWAPPED = 1 << 4,
};

/* struct page_region and struct pm_scan_arg of <linux/fs.h>, which older system headers lack. */
struct scan_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, regions, regions_max, pages_max;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL _IOWR('f', 16, struct scan)

enum { SCAN_REGIONS = 64 };

static bool scan_refused;

/* The file shows the address space of the process that opened it, so a forked child opens it again. */
static int pagemap_file(void)
{
    static int file = -1;
    static pid_t opener;
    if (opener != getpid()) {
        opener = getpid();
        file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    }
    return file;
}

static bool scan_pagemap(uintptr_t start, uintptr_t *end, struct resident_range ranges[], uint32_t max, uint32_t *count)
{
    struct scan_region regions[SCAN_REGIONS];
    struct scan scan = {
        .size = sizeof scan,
        .start = start,
        .end = *end,
        .regions = (uintptr_t)regions,
        .regions_max = max < SCAN_REGIONS ? max : SCAN_REGIONS,
        .category_anyof_mask = PAGE_PRESENT | PAGE_SWAPPED,
        .return_mask = PAGE_PRESENT | PAGE_SWAPPED,
    };
    if (scan_refused) return false;
    int found = ioctl(pagemap_file(), SCAN_IOCTL, &scan);
    scan_refused = found < 0;
    if (scan_refused) return false;
    for (int i = 0; i < found; i++) ranges[i] = (struct resident_range){regions[i].start, regions[i].end};
    *count = (uint32_t)found;
    *end = scan.walk_end;
    return true;
}

static uint32_t scan_mincore(uintptr_t start, uintptr_t *end, struct resident_range ranges[], uint32_t max)
{
    unsigned char resident[LOOK_PAGES];
    if (*end - start > sizeof resident * SYSTEM_PAGE_BYTES) *end = start + sizeof resident * SYSTEM_PAGE_BYTES;
    if (mincore((void *)start, *end - start, resident) != 0) {
        ranges[0] = (struct resident_range){start, *end};
        return 1;
    }
    uint32_t count = 0;
    for (size_t i = 0; start < *end; i++, start += SYSTEM_PAGE_BYTES) {
        if ((resident[i] & 1) == 0) continue;
        if (count > 0 && ranges[count - 1].end == start) {
            ranges[count - 1].end += SYSTEM_PAGE_BYTES;
            continue;
        }
        if (count == max) {
            *end = start;
            break;
        }
        ranges[count++] = (struct resident_range){start, start + SYSTEM_PAGE_BYTES};
    }
    return count;
}

void resident_scan_allow(bool allowed)
{
    scan_refused = !allowed;
}

uint32_t resident_ranges(uintptr_t start, uintptr_t *end, struct resident_range ranges[], uint32_t max)
{
    uint32_t count = 0;
    if (scan_pagemap(start, end, ranges, max, &count)) return count;
    return scan_mincore(start, end, ranges, max);
}
