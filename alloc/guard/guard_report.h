/* guard_report.h: how a misuse of a sampled block is reported. Called by guard.c and by the crash handler. */
#pragma once

#include <stdbool.h>

#include "guard/guard.h"

/* Writes a line to standard error, the stacks that allocated and freed the block, and a command that names their functions.
 * Async-signal-safe. */
void guard_say(const struct guard_history *history);

/* Calls guard_say and abort(), for a bad pointer that was given to free or realloc. */
HAK_NORETURN void guard_misused(const void *pointer, enum record_finding finding);

/* For the handler of that abort: what guard_misused has reported in this thread. False: it was not called. */
bool guard_misuse(struct guard_history *history);

/* Forgets that, when the handler is done. A program may survive the abort; a later abort of this thread must not be
 * taken for the same one. */
void guard_misuse_forget(void);
