/* crash_writer.h: lets one thread at a time write a crash record. A thread is a number: its process's id << 32 | its own.
 * Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Makes the caller the writer; true if it is to write a record. False if it had to wait for another thread's record, or
 * waited in vain. */
bool crash_writer_take(uint64_t me);

/* Does nothing if the caller is not the writer. */
void crash_writer_release(uint64_t me);

/* Whether the caller is the writer. */
bool crash_writer_is(uint64_t me);
