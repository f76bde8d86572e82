/* background.c: see background.h. */
#include "control/background.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/config.h"
#include "cache/thread.h"
#include "cache/visit.h"
#include "heap/huge.h"
#include "heap/own.h"
#include "control/stats_write.h"
#include "os/call.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_thread.h"
#include "report/writer.h"
#include "superslab/purge.h"

enum {
    WAIT_MS_MIN = 50,
    WAIT_MS_MAX = 1000,
    RESTS = 8, /* after this number of rounds that found nothing it waits longer */
};

/* Under LOCK_BACKGROUND. */
static pthread_t thread;
static bool has_thread, is_on, writes_files;

static _Atomic(uint64_t) rounds; /* relaxed */

/* --- the thread's rounds --------------------------------------------------------------------------------------- */

/* One round. Returns whether there was something to do, or a thread of the program was active. */
static bool make_round(void)
{
    bool found = purge_dirty_pages() != 0 || huge_any_cached() || thread_any_warm();
    uint64_t now_ms = os_now_ms();
    if (pool_tick(now_ms)) thread_tick_whole();
    huge_tick(now_ms);
    struct visit_found visits = visit_idle();
    bool found_own = own_purge_idle() > 0;
    atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
    return found || found_own || visits.given_back > 0 || visits.active > 0;
}

static uint32_t wait_ms(uint32_t rests)
{
    uint32_t delay_ms = purge_delay_ms() > 0 ? purge_delay_ms() : PURGE_DELAY_MS;
    uint32_t ms = rests >= RESTS ? 4 * delay_ms : delay_ms;
    return ms < WAIT_MS_MIN ? WAIT_MS_MIN : ms > WAIT_MS_MAX ? WAIT_MS_MAX : ms;
}

/* makes_rounds: NULL if no option and no call asks for them. */
static void *run(void *makes_rounds)
{
    call_prctl(PR_SET_NAME, (intptr_t)"hakmem", 0, 0, 0);
    uint32_t rests = 0;
    for (;;) {
        if (makes_rounds != NULL) os_wait_ms((uint32_t *)&writer_due, 0, wait_ms(rests));
        else os_wait((uint32_t *)&writer_due, 0);
        const bool must_end = writer_take(END_DUE) != 0;
        stats_write_due_waiting(); /* not stats_write_due: what it leaves would wake this thread at once, again and again */
        if (must_end) return NULL;
        if (makes_rounds != NULL) rests = make_round() ? 0 : rests + 1;
    }
}

/* --- its begin and its end ----------------------------------------------------------------------------------------- */

void background_after_fork(void)
{
    has_thread = is_on = writes_files = false; /* the lock is free again: see lock_all_reset */
    atomic_store_explicit(&rounds, 0, memory_order_relaxed);
}

static void set_thread(bool is_there)
{
    has_thread = is_there;
    atomic_store_explicit(&writer_has_thread, is_there, memory_order_relaxed);
}

/* Under the lock. */
static void end_thread(void)
{
    if (!has_thread) return;
    writer_want(END_DUE);
    own_thread_join(thread);
    set_thread(false);
    is_on = writes_files = false;
}

/* Replaces the thread by one that does what is wanted now. Under the lock. */
static int change(bool rounds_wanted, bool files_wanted)
{
    end_thread();
    writes_files = files_wanted;
    if (!rounds_wanted && !files_wanted) return 0;
    int error = own_thread_start(&thread, run, rounds_wanted ? &rounds : NULL);
    if (error != 0) return error;
    set_thread(true);
    is_on = rounds_wanted;
    return 0;
}

int background_set(bool on)
{
    if (!thread_process_start()) return ENOMEM;
    lock_acquire(LOCK_BACKGROUND);
    int error = on != is_on ? change(on, writes_files) : 0;
    lock_release(LOCK_BACKGROUND);
    return error;
}

void background_write_files(void)
{
    lock_acquire(LOCK_BACKGROUND);
    if (!writes_files) change(is_on, true);
    lock_release(LOCK_BACKGROUND);
}

void background_end(void)
{
    /* relaxed: a thread that another thread starts at this moment ends with the process. Mostly there is none, and the lock is
     * not taken: exit may have been called by a handler of a signal that came within malloc. */
    if (!atomic_load_explicit(&writer_has_thread, memory_order_relaxed)) return;
    lock_acquire(LOCK_BACKGROUND);
    end_thread();
    lock_release(LOCK_BACKGROUND);
}

/* A process whose first thread calls pthread_exit ends with the last thread that libc knows of, and this one is among those. From
 * there on slow paths do its work. */
void background_end_with_first(void)
{
    /* relaxed: see background_end. */
    if (!atomic_load_explicit(&writer_has_thread, memory_order_relaxed) || call_gettid() != call_getpid()) return;
    background_end();
}

bool background_is_on(void)
{
    lock_acquire(LOCK_BACKGROUND);
    bool on = is_on;
    lock_release(LOCK_BACKGROUND);
    return on;
}

uint64_t background_rounds(void)
{
    return atomic_load_explicit(&rounds, memory_order_relaxed);
}
