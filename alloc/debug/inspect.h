/* inspect.h: checks the heap's data against the laws in alloc/README.md; hakmem/validate.h states the contract. For
 * tests and the debug-validation build; not a part of the release library. */
#pragma once

#include "hakmem/validate.h"

__attribute__((visibility("default"))) bool hak_inspect(struct hak_inspect_report *report);
