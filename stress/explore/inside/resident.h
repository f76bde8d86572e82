/* resident.h: finds the pages of an address range that have memory. A mapped page without memory reads as zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct resident_range {
    uintptr_t start, end;
};

/* Finds up to `max` ranges of pages that have memory, lowest first, between `start` and `*end`, which are multiples of
 * the system's page. Returns the number of ranges and sets `*end` to how far it looked. If the system does not say, all
 * pages count as having memory. One thread at a time. */
uint32_t resident_ranges(uintptr_t start, uintptr_t *end, struct resident_range ranges[], uint32_t max);

/* For tests: whether to use the newer way to ask, if the system has it. True from the start. */
void resident_scan_allow(bool allowed);

#ifdef __cplusplus
}
#endif
