/* bad_pointer.h: names the misuse when free or realloc gets a pointer at which the page map knows no block. Not a part of the
 * release library. */
#pragma once

#include <stdbool.h>

#include "report/failfast.h"

/* Reports the pointer. Returns false if the process continues. `freed` is the kind to report if a block has been
 * there. */
bool bad_pointer_refused(const void *pointer, enum failfast_kind freed);
