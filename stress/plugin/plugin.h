/* What the libraries of the Dlopen op have in common. Each is loaded from beside the program, called, and
 * unloaded, over and over, by several threads at once; blocks cross its border both ways. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *plugin_take(size_t size_bytes);  /* allocates; the program frees */
void plugin_give(void *block);         /* frees what the program allocated */
/* Uses the library's own thread-local memory, and blocks of its own. 0, or a number that says what is wrong. */
int plugin_use(void);

#ifdef __cplusplus
}
#endif
