/* crash_record.h: builds a crash record, in static memory, on the thread that crashed. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct hak_crash_facts;

/* Called before any crash. Loads the unwinder, which allocates at its first use, asks the dynamic linker for its
 * modules, and keeps the facts that may change later: arguments, environment, standard input, and size and time of the
 * files. */
void crash_record_prepare(void);

void crash_record_set_context(const struct hak_crash_facts *context);

/* Whether si_addr is an address of memory. For a fault with SIGSEGV or SIGBUS it is, except where the processor has no
 * such address, as 0x6b6b6b6b6b6b6b6b (SI_KERNEL). For SIGFPE and SIGILL it is the program counter. A signal that was
 * sent has none. */
static inline bool crash_has_address(int signal_number, const siginfo_t *info)
{
    return (signal_number == SIGSEGV || signal_number == SIGBUS) && info->si_code > 0 && info->si_code != SI_KERNEL;
}

/* Builds the record and returns it; it is valid until the next call, and *size_bytes is its length. One thread at a
 * time, in a signal handler. */
const void *crash_record_make(int signal_number, const siginfo_t *info, const void *signal_context, size_t *size_bytes);
