/* os_pages.h: a table of os_ops for tests: a system whose pages are larger than this one's, as 16 and 64 KiB on aarch64.
 *
 * It passes the calls to the system itself, and ends the process where a call names a part of a page: the real system
 * would refuse it, or round it up and take what was not named. A test program that is started with the variable
 * HAKMEM_TEST_PAGE_BYTES has this table from its start. */
#pragma once

#include <stddef.h>

/* Installs the table. page_bytes: a power of two between the system's own page size and PAGE_BYTES. The heap must not
 * have started. */
void os_pages_install(size_t page_bytes);
