/* crash_try.h: runs a step of the crash handler that may itself fault, as the unwinder may on a broken stack. Only for
 * the thread that writes the record. */
#pragma once

#include <stdbool.h>

/* Calls step(context). False if it faulted; what it did before that remains. Steps do not nest. */
bool crash_try(void (*step)(void *context), void *context);

/* For the handler of a second fault: if a step is under way, jumps back to crash_try and does not return. */
void crash_try_fail(void);
