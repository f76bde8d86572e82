/* fault.h: what a SIGSEGV says of the heap, from level 2 on. It reports an access to a freed block that is sealed (sealed.h),
 * and a pointer that is all junk: such a one was read from a freed block, or from one that was never written
 * (HAKMEM_FAILFAST_FILL). Any other fault ends the process as without us. Not a part of the release library. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* Installs a handler, if the signal has its default action: so where the crash handler is installed, that one asks here, by
 * base/hooks.h. Before main. fault_stop takes it out again. */
void fault_start(void);
void fault_stop(void);

/* Reports the fault, if it is one of these. True if the program may try again: the report did not end it, and the memory can
 * be used now. Async-signal-safe. */
bool fault_is_told(const siginfo_t *info, const void *signal_context);
