/* loading_module.h: what loading_module.c exports. */
#pragma once

#include <stdbool.h>

typedef bool module_pairs(void);
typedef char *module_make(const char *text);
typedef void module_drop(char *text);

module_pairs module_pairs_match;
module_make module_text_make;
module_drop module_text_drop;
