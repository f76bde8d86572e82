/* crash_try.h: a step of the crash handler that may itself fault, as the unwinder does on a broken stack. By the one
 * thread that writes a record. */
#pragma once

#include <stdbool.h>

/* Calls step(context). False when it faulted: what it had done by then stands. Steps do not nest. */
bool crash_try(void (*step)(void *context), void *context);

/* In the handler of a second fault: goes back to crash_try, and does not return, if a step is under way. */
void crash_try_fail(void);
