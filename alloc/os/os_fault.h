/* os_fault.h: an os table for tests that passes every call to the system and fails chosen ones, in
 * the manner of SQLite's fault tests: the 1st, 2nd, ... nth until a run passes untouched. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Installs the table: call number `nth` (from 1) fails, and with for_ever every later one too.
 * nth == 0 fails none and only counts. Not while other threads are in the allocator. */
void os_fault_install(uint64_t nth, bool for_ever);

/* The system's own table again. Returns how many calls were made since os_fault_install. */
uint64_t os_fault_remove(void);

/* Failures injected since os_fault_install. */
uint64_t os_fault_failures(void);
