/* sanitizer_report.h: under AddressSanitizer, what the heap knows of the address of an error: a few lines before the
 * sanitizer's own report, which takes our blocks for no blocks at all. In the debug-validation build with frames also
 * where the block was allocated and freed, and by which threads. */
#pragma once

/* The hook: under ASAN an error at this address is about to be reported. Any thread, any address. */
void sanitizer_report(const void *address);
