/* Shared by the libraries of the Dlopen op. Several threads at once load each library from beside the program, call it
 * and unload it, over and over; blocks cross its border both ways. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *plugin_take(size_t size_bytes);  /* allocates; the program frees */
void plugin_give(void *block);         /* frees what the program allocated */
/* Uses the library's own thread-local memory, and its own blocks. Returns 0, or a number that says what is wrong. */
int plugin_use(void);

#ifdef __cplusplus
}
#endif
