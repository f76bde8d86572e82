/* zero_page.h: whether a page reads as zero. Used on a hundred pages before each run, since what a run wrote is not
 * known. */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SYSTEM_PAGE_BYTES = 4096 };

/* `page` is a multiple of the page size. */
bool stress_page_is_zero(const void *page);

#ifdef __cplusplus
}
#endif
