/* file.h: reads the system's files of text, as those of /proc, with plain system calls and into the caller's memory.
 * Async-signal-safe; allocates nothing; keeps errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Reads a file's first `size` bytes, or all if there are less. Returns how many there were; 0: it cannot be read. */
size_t file_read(const char *path, char *bytes, size_t size);

/* Calls visit with each part of the file that ends in the byte `separator`, as a string without that byte, until it returns true.
 * Uses `entry`: what does not fit is cut off, and length is that of the whole. False: the file cannot be opened. */
typedef bool file_visit_fn(const char *entry, size_t length, void *context);
bool file_each(const char *path, char separator, char *entry, size_t size, file_visit_fn *visit, void *context);
