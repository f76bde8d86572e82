/* inspect.h: checks the heap's books against the laws named in alloc/README.md; the contract is in
 * hakmem/validate.h. For tests and the debug-validation build; not a part of the release library. */
#pragma once

#include "hakmem/validate.h"

__attribute__((visibility("default"))) bool hak_inspect(struct hak_inspect_report *report);
