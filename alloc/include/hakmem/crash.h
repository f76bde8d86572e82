/* crash.h: crash records. They are off until the environment has HAKMEM_CRASH_DIR=DIR, or the program calls the
 * functions below.
 *
 * On SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT the process writes the record DIR/hakmem-PID-TID-N.crash (record.h
 * defines the format) and one line on standard error. Then the signal takes its usual course: it runs the handler that
 * was there before, or ends the process, core dump included. Read a record with: hakmem-stress report FILE.
 *
 * The handler takes no lock and allocates nothing. It runs on an alternate signal stack, so that it works when a
 * thread's stack has overflowed. The thread that installs the handler gets such a stack, and so does every thread whose
 * first allocation comes later. A thread that already has an alternate stack keeps its own.
 *
 * The record holds the arguments and the environment as they were when the handler was installed. With HAKMEM_CRASH_DIR
 * that is before main, so a program that overwrites its argv later does not change them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hakmem/hakmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Installs the handler; crash records go to dir. A relative dir is resolved against the current directory now. Returns
 * 0, or an errno value, and then nothing has changed: ENOENT, ENOTDIR or EACCES for the directory, ENAMETOOLONG above
 * 2048 bytes, EALREADY when the handler is already installed. Any thread, but not while another one calls remove. */
HAKMEM_API int hak_crash_handler_install(const char *dir) HAKMEM_NOTHROW;

/* Restores the handlers that were there before. A signal whose handler was replaced in the meantime keeps the new one, which
 * may go on calling ours; installed again, ours goes over it. It does so once: beneath a second such handler it stays, and
 * needs to be called from there. Does nothing when no handler is installed. */
HAKMEM_API void hak_crash_handler_remove(void) HAKMEM_NOTHROW;

/* Facts that the program wants in its crash records. Every pointer may be NULL. The data behind the pointers is read
 * when the process crashes; it must stay valid until another context is set. */
struct hak_crash_facts {
    const uint64_t *seed, *clock, *schedule_hash;
    /* Writes lines of text to the buffer, at most room bytes, and returns how many bytes. Called in the signal
     * handler. */
    size_t (*operations)(char *buffer, size_t room);
    const char *reproduce; /* the command that repeats the run */
};

/* Sets the facts, by a copy of the struct; NULL removes them. Any thread, one at a time. */
HAKMEM_API void hak_crash_context(const struct hak_crash_facts *context) HAKMEM_NOTHROW;

#ifdef __cplusplus
}
#endif
