/* crash.h: crash records. Off unless asked for: by HAKMEM_CRASH_DIR=DIR in the environment, or by the calls below.
 *
 * On SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT the process writes DIR/hakmem-PID-TID-N.crash (record.h says what is
 * in it), one line on standard error, and then goes on as it would have: to the handler that was there before, or to
 * its end by that signal, core dump included. Read a record with: hakmem-stress report FILE.
 *
 * The handler takes no lock and allocates nothing. It runs on a stack of its own in the thread that installs it
 * and in every thread that first allocates afterwards, so that it works when the thread's stack has overflowed.
 * A thread that has an alternate stack already keeps that one.
 *
 * The record holds the arguments and the environment as they are when the handler is installed. With HAKMEM_CRASH_DIR
 * that is before main, so a program that overwrites its argv later does not change them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "hakmem/hakmem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Installs the handler; crash records go to dir. Returns 0, or an errno value, and then nothing has changed:
 * ENOENT, ENOTDIR, EACCES for the directory, ENAMETOOLONG above 2048 bytes, EALREADY when it is installed. A dir
 * that is relative is taken from where the process is now. Any thread, not at the same time as remove. */
HAKMEM_API int hak_crash_handler_install(const char *dir) HAKMEM_NOTHROW;

/* Puts back the handlers that were there before, where ours still stand. Does nothing when none is installed. */
HAKMEM_API void hak_crash_handler_remove(void) HAKMEM_NOTHROW;

/* What a host program knows and a record should tell. All may be NULL. What the pointers point to is read when
 * the process crashes, and stays until another context is set. */
struct hak_crash_facts {
    const uint64_t *seed, *clock, *schedule_hash;
    /* Writes lines of text, at most room bytes, and returns how many. Called in the signal handler. */
    size_t (*operations)(char *buffer, size_t room);
    const char *reproduce; /* the command that repeats the run */
};

/* Copies the context; NULL: there is none any more. Any thread, one at a time. */
HAKMEM_API void hak_crash_context(const struct hak_crash_facts *context) HAKMEM_NOTHROW;

#ifdef __cplusplus
}
#endif
