/* crash_misuse.h: the part of the program of crash_test that uses blocks wrongly, and what it shares with the rest. */
#pragma once

#include <stdint.h>

/* A function of its own in each backtrace. */
#define PLAINLY __attribute__((noinline))

/* Prints a fact that the record must contain. */
void tell(const char *name, uint64_t value);

/* Errors for which the debug-validation build ends the process. Returns if none does. */
void misuse(const char *how);

/* Overwrites the link in a freed block; the second allocation of the class follows it. */
void bad_link(void);

/* Makes the bin's list a circle. The block is the only one of its slab in use, so its second return is one too many. */
void freed_twice(void);
