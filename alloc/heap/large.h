/* large.h: blocks of 32 KiB to 2 MiB, each a run of pages of a superslab. Any thread may allocate
 * and free; nothing is owned, nothing is locked unless a superslab must be made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* size_bytes and align_bytes at most RUN_BYTES_MAX. NULL when the system has no memory. */
void *large_alloc(size_t align_bytes, size_t size_bytes, bool *zero);

void large_free(void *pointer);
size_t large_usable_size(const void *pointer);

/* Shrinks where it stands, or grows there if the pages behind it are free. */
bool large_resize(void *pointer, size_t size_bytes);
