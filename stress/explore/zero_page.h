/* zero_page.h: whether a page of the system reads as zero: of a run on the arena, most of what is not the allocator's. */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SYSTEM_PAGE_BYTES = 4096 };

/* A multiple of that. */
bool stress_page_is_zero(const void *page);

#ifdef __cplusplus
}
#endif
