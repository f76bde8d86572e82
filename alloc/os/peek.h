/* peek.h: reads memory that may not be mapped, for a process that has crashed. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies size_bytes from any address. False when not all of them can be read; then out holds the part that could be,
 * and zeros. Keeps errno. Any thread. */
bool os_peek(const void *address, void *out, size_t size_bytes);

/* Reads one word. *readable says whether it could be read; if not, returns 0. */
uint64_t os_peek_word(const void *address, bool *readable);
