/* place.h: how reports name a place in a module. Async-signal-safe. */
#pragma once

#include <stdint.h>

struct module;
struct text;

/* Adds PATH+OFFSET, with the offset that addr2line expects; behind it the build id, if another file was seen under the same
 * path. */
void place_add(struct text *text, const struct module *module, uintptr_t lasting);

/* Adds the build id in hexadecimal; nothing if the module has none. */
void place_add_build_id(struct text *text, const struct module *module);
