/* peek.h: reads of memory that may not be there, for a process that has crashed. Fit for a signal handler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies size_bytes from any address at all. False when not all of them can be read; out then holds zeros, or a
 * part. Keeps errno. Any thread. */
bool os_peek(const void *address, void *out, size_t size_bytes);

/* One word. 0 where it cannot be read, and then *readable is false. */
uint64_t os_peek_word(const void *address, bool *readable);
