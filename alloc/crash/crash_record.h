/* crash_record.h: what stands in a crash record, put together in static memory by the thread that crashed. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct hak_crash_facts;

/* Before any crash: loads the unwinder, which allocates when it is first used, asks the dynamic linker, and keeps what
 * the program may change later: its arguments, its environment, its standard input, and what its files look like. */
void crash_record_prepare(void);

void crash_record_set_context(const struct hak_crash_facts *context);

/* Whether the signal tells an address of memory. A SIGSEGV or SIGBUS does, unless it is at an address that the
 * processor does not have, such as 0x6b6b6b6b6b6b6b6b (SI_KERNEL). A SIGFPE or SIGILL tells the instruction, which is
 * the program counter. A signal that was sent tells none. */
static inline bool crash_has_address(int signal_number, const siginfo_t *info)
{
    return (signal_number == SIGSEGV || signal_number == SIGBUS) && info->si_code > 0 && info->si_code != SI_KERNEL;
}

/* The record, valid until the next call; *size_bytes is its length. One thread at a time, in a signal handler. */
const void *crash_record_make(int signal_number, const siginfo_t *info, const void *signal_context, size_t *size_bytes);
