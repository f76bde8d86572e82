/* explain_next.h: the last line of a failfast report, a command to run next. Not a part of the release library. */
#pragma once

#include <stdint.h>

#include "report/failfast.h"

/* Called once, before main: reads the command line, which the program may overwrite later. */
void explain_next_start(void);

/* Adds "next: " and the command that tells more. That is addr2line with the events' return addresses; if there are
 * none, the program's own command line with level 3; and for a find that is not about a block, the command line under a
 * debugger. Async-signal-safe. */
struct text;
void explain_next(struct text *text, enum failfast_kind kind, const struct failfast_event *const *events,
                  uint32_t event_count);
