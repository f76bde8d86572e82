/* stray.h: what to call a pointer that is given to free or realloc and at which the page map knows no block. Not a
 * part of the release library. */
#pragma once

#include <stdbool.h>

#include "report/failfast.h"

/* Reports it, and returns false where the process goes on. `freed`: the kind where a block stood there. */
bool stray_refused(const void *pointer, enum failfast_kind freed);
