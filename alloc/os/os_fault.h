/* os_fault.h: a table of os_ops for tests. It fails chosen calls and passes the others to the table that was there. As in SQLite's
 * fault tests, a test fails the 1st call, then the 2nd, and so on, until a run makes fewer calls than that. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Installs the table. Call number `nth` (from 1) fails, and with for_ever every later one too. With nth == 0 none
 * fails; calls are only counted. No other thread may be in the allocator. */
void os_fault_install(uint64_t nth, bool for_ever);

/* Puts that table back. Returns how many calls were made since os_fault_install. */
uint64_t os_fault_remove(void);

/* Failures injected since os_fault_install. */
uint64_t os_fault_failures(void);
