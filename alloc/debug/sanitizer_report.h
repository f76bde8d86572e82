/* sanitizer_report.h: under AddressSanitizer, prints what the heap knows of the address of an error, in a few lines
 * before the sanitizer's own report, which does not know our blocks. In the debug-validation build with frames also
 * where and by which threads the block was allocated and freed. */
#pragma once

/* The hook sanitizer_report of base/hooks.h. Any thread, any address. */
void sanitizer_report(const void *address);
