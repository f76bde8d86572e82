/* background.c: see background.h. */
#include "heap/background.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "base/config.h"
#include "base/policy.h"
#include "cache/thread.h"
#include "cache/visit.h"
#include "heap/huge.h"
#include "heap/own.h"
#include "heap/stats_write.h"
#include "os/call.h"
#include "os/lock.h"
#include "os/os.h"
#include "superslab/purge.h"

enum {
    STACK_BYTES = (64 + 192 * (HAK_SANITIZE_ADDRESS || HAK_SANITIZE_THREAD || HAK_SANITIZE_MEMORY)) * 1024,
    WAIT_MS_MIN = 50,
    WAIT_MS_MAX = 1000,
    RESTS = 8, /* after this number of rounds that found nothing it waits longer */
};

/* Under LOCK_BACKGROUND. */
static pthread_t thread;
static bool is_on, fork_handler_set;

static _Atomic(uint32_t) must_end; /* the thread sleeps on it. Orders nothing, since join does: relaxed */
static _Atomic(uint64_t) rounds;   /* relaxed */

/* --- the rounds of slow paths ---------------------------------------------------------------------------------- */

/* The thread's first slow path in a round: posts remote frees that were staged before, for their owners. */
HAK_NOINLINE void tick_round(struct tcache *tcache)
{
    if (tcache->heap == NULL) return;
    tcache->tick_rounds = pool_tick_rounds();
    atomic_store_explicit(&tcache->heap->rounds_seen, tcache->tick_rounds, memory_order_relaxed);
    remote_post_all(&tcache->heap->staging);
    if (HAK_UNLIKELY(stats_signal_is_due())) stats_signal_write();
}

/* There is idle memory: gives back what has been idle for a delay. */
HAK_NOINLINE void tick_clock(struct tcache *tcache)
{
    uint64_t now_ms = os_now_ms();
    if (HAK_UNLIKELY(pool_tick(now_ms))) thread_tick();
    huge_tick(now_ms);
    struct heap *heap = tcache->heap;
    if (heap == NULL || !tcache->watches_idle) return;
    uint64_t pause_ms = now_ms - heap->seen_ms;
    heap->seen_ms = now_ms;
    if (HAK_UNLIKELY(pause_ms >= PAUSE_MS_MIN)) tcache_trim_idle(tcache, pause_ms);
    tcache->watches_idle = owner_idle_bytes(&heap->owner) >= TRIM_IDLE_BYTES_MIN;
}

/* --- the thread's rounds --------------------------------------------------------------------------------------- */

/* One round. Returns whether there was something to do, or a thread of the program was active. */
static bool make_round(void)
{
    bool found = purge_dirty_pages() != 0 || huge_any_cached() || thread_any_warm();
    uint64_t now_ms = os_now_ms();
    if (pool_tick(now_ms)) thread_tick();
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

static void *run(void *unused)
{
    (void)unused;
    call_prctl(PR_SET_NAME, (intptr_t)"hakmem", 0, 0, 0);
    uint32_t rests = 0;
    while (atomic_load_explicit(&must_end, memory_order_relaxed) == 0) {
        os_wait_ms((uint32_t *)&must_end, 0, wait_ms(rests));
        if (atomic_load_explicit(&must_end, memory_order_relaxed) != 0) break;
        if (stats_signal_is_due()) stats_signal_write();
        rests = make_round() ? 0 : rests + 1;
    }
    return NULL;
}

/* The child has no thread but the calling one. The lock is free again: see lock_all_reset. */
static void fork_child(void)
{
    is_on = false;
    atomic_store_explicit(&rounds, 0, memory_order_relaxed);
}

static int start(void)
{
    atomic_store_explicit(&must_end, 0, memory_order_relaxed);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) return error;
    size_t stack_bytes = STACK_BYTES > (size_t)PTHREAD_STACK_MIN ? STACK_BYTES : (size_t)PTHREAD_STACK_MIN;
    pthread_attr_setstacksize(&attributes, stack_bytes);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it */
    error = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int background_set(bool on)
{
    if (!thread_process_start()) return ENOMEM;
    int saved = errno, error = 0;
    lock_acquire(LOCK_BACKGROUND);
    if (on && !fork_handler_set) fork_handler_set = pthread_atfork(NULL, NULL, fork_child) == 0;
    if (on && !fork_handler_set) {
        error = ENOMEM;
    } else if (on && !is_on) {
        error = start();
        is_on = error == 0;
    } else if (!on && is_on) {
        atomic_store_explicit(&must_end, 1, memory_order_relaxed);
        os_wake_one((uint32_t *)&must_end);
        pthread_join(thread, NULL);
        is_on = false;
    }
    lock_release(LOCK_BACKGROUND);
    errno = saved;
    return error;
}

void background_wake(void)
{
    os_wake_one((uint32_t *)&must_end);
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
