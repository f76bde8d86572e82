/* writer.c: see writer.h. */
#include "report/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

#include "os/call.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_stack.h"

enum { COPY_WAIT_MS = 2000 };

_Atomic(uint32_t) writer_due;
_Atomic(bool) writer_has_thread;

void writer_want(uint32_t what)
{
    atomic_fetch_or_explicit(&writer_due, what, memory_order_relaxed);
    os_wake_one((uint32_t *)&writer_due);
}

uint32_t writer_take(uint32_t of)
{
    return atomic_fetch_and_explicit(&writer_due, ~of, memory_order_relaxed) & of;
}

/* All but those by which a fault of ours shows itself. */
static void signals_block(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) sigdelset(&blocked, faults[i]);
    /* Those that end the program, if it has no handler: a write may wait for long, to a FIFO for one. */
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) sigdelset(&blocked, ends[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

/* With the lock. */
static void run_locked(writer_job_fn *job, void *context, const sigset_t *before)
{
    int saved = errno;
    own_stack_call(job, context);
    errno = saved;
    lock_release(LOCK_DUMP);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void writer_run(writer_job_fn *job, void *context)
{
    sigset_t before;
    signals_block(&before); /* first: a handler that does not return would leave the lock held */
    lock_acquire(LOCK_DUMP);
    run_locked(job, context, &before);
}

bool writer_try(writer_job_fn *job, void *context)
{
    sigset_t before;
    signals_block(&before);
    if (lock_try(LOCK_DUMP)) {
        run_locked(job, context, &before);
        return true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return false;
}

void writer_after_fork(void)
{
    atomic_store_explicit(&writer_has_thread, false, memory_order_relaxed);
    atomic_store_explicit(&writer_due, 0, memory_order_relaxed);
}

void writer_run_in_copy(writer_job_fn *job, void *context)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    const int copy = call_clone();
    if (copy == 0) {
        writer_run(job, context);
        call_exit_group(0);
    }
    for (int ms = 0; copy > 0 && ms < COPY_WAIT_MS; ms++) {
        if (call_wait4(copy, WNOHANG | __WALL) != 0) return; /* it has ended */
        call_nanosleep(&moment);
    }
    if (copy > 0) {
        call_kill(copy, SIGKILL);
        call_wait4(copy, __WALL);
    }
}
