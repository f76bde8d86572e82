/* sanitizer_report.h: under AddressSanitizer, what the heap knows of the address of an error: a few lines before the
 * sanitizer's own report, which takes our blocks for no blocks at all. In the debug-validation build with frames also
 * where the block was allocated and freed, and by which threads. */
#pragma once

/* Lets the sanitizer's reports ask. Any number of times, any thread. */
void sanitizer_report_start(void);
