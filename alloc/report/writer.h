/* writer.h: who writes the files that options ask for, when, and on which stack.
 *
 * malloc and free write none. A slow path, or the handler of a signal, notes what is due (writer_want). That wakes the
 * library's thread (control/background.h), which writes. A process without that thread, as the child of a fork, writes in its
 * next slow path, and at exit the thread writes that calls exit. All of them write in a job: on a stack of the library's own,
 * with signals blocked, except those that end the program, so that it takes little of the caller's stack and no handler of
 * the program leaves it. One job runs at a time. None is a cancellation point. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"

/* What can be due: the figures, a heap profile for a signal, a heap profile for a step of growth; and the thread's end. */
enum { STATS_DUE = 1, PROFILE_DUE = 2, STEP_DUE = 4, END_DUE = 8 };

/* A word, since riscv64 cannot exchange a byte without libatomic. relaxed: the thread that writes takes it by one access,
 * and nothing is published by it. The library's thread sleeps on it. */
extern HAK_HIDDEN _Atomic(uint32_t) writer_due;

/* Whether the library's thread is there. relaxed: for what becomes due just then, either will do. */
extern HAK_HIDDEN _Atomic(bool) writer_has_thread;

/* Whether something is due that a slow path has to write, since no thread does. */
static inline bool writer_is_due_here(void)
{
    return HAK_UNLIKELY(atomic_load_explicit(&writer_due, memory_order_relaxed) != 0) &&
           !atomic_load_explicit(&writer_has_thread, memory_order_relaxed);
}

/* Notes what is due. Async-signal-safe. Keeps errno. Without the thread the caller also has the next slow path look
 * (pool_tick_force). */
void writer_want(uint32_t what);

/* Takes of these what is due. */
uint32_t writer_take(uint32_t of);

/* Runs a job; waits if another one runs. Keeps errno. Not in a job. */
typedef void writer_job_fn(void *context);
void writer_run(writer_job_fn *job, void *context);

/* The same, but false at once if another one runs. */
bool writer_try(writer_job_fn *job, void *context);

/* Runs a job in a copy of the process, made as fork() makes one but without its handlers, and returns when it is done, or after two
 * seconds. A handler of a signal may call this, whatever the thread was doing: a lock that is held for good ends the copy only.
 * Keeps errno. */
void writer_run_in_copy(writer_job_fn *job, void *context);

/* In the child after fork: there is no thread, and what was due is the parent's. */
void writer_after_fork(void);
