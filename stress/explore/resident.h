/* resident.h: which pages of a range of addresses have memory. What is mapped and has none reads as zero. */
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

/* Finds up to `max` ranges of pages that have memory, lowest first, between `start` and `*end`, multiples of the
 * system's page. Returns how many; `*end` is then how far it looked. Where the system does not say, all is taken to
 * have memory. One thread at a time. */
uint32_t resident_ranges(uintptr_t start, uintptr_t *end, struct resident_range ranges[], uint32_t max);

/* For tests: whether the system is asked by the newer of the two ways, where it has it. True from the start. */
void resident_scan_allow(bool allowed);

#ifdef __cplusplus
}
#endif
