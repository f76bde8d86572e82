/* inside_watch.c: see inside_watch.h. */
#include "explore/inside/inside_watch.h"

#include <setjmp.h>
#include <signal.h>

#include "cache/visit.h"
#include "crash/crash_writer.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
#include "explore/inside/arena.h"
#include "guard/guard.h"
#include "guard/guard_report.h"
#include "profile/sampler.h"
#include "heap/own_inside.h"
#include "control/stats_write.h"
#include "os/os.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "profile/sites.h"
#include "report/settings.h"
#include "report/writer.h"
#include "superslab/pool.h"
#include "superslab/pool_make.h"
#include "superslab/purge.h"

void inside_level_set(int level)
{
    failfast_level_read = level;
}

void inside_refuse(void)
{
    failfast_goes_on_read = 1;
}

static struct framed framed_at(const void *block)
{
    struct lookup at = heap_lookup(block);
    struct framed framed = {0};
    frame_read(&at, block, &framed);
    return framed;
}

bool inside_frame_take(void *block)
{
    struct framed framed = framed_at(block);
    return framed.start != NULL && frame_state_change(&framed, FRAME_LIVE, FRAME_FREED);
}

void inside_frame_put(void *block)
{
    struct framed framed = framed_at(block);
    quarantine_put(&framed);
}

bool inside_frame_waits(const void *block)
{
    return quarantine_holds(heap_lookup(block).start);
}

bool inside_guard_begin(uint32_t slots)
{
    inside_level_set(0);
    if (!guard_start(slots)) return false;
    sampling_guard_set(1);
    return true;
}

struct inside_guard inside_guard_now(void)
{
    const struct guard_figures figures = guard_figures();
    return (struct inside_guard){figures.sampled, figures.live};
}

void inside_guard_rate(uint32_t rate)
{
    sampling_guard_set(rate);
}

bool inside_guard_is_live(const void *address)
{
    struct guard_history history;
    return guard_find((uintptr_t)address, &history) && history.state == RECORD_STATE_live;
}

static HAK_TLS sigjmp_buf *survived;

bool inside_guard_free(void *block)
{
    sigjmp_buf here;
    HAK_MINE(survived) = &here;
    bool is_freed = false;
    if (sigsetjmp(here, 0) == 0) {
        guard_free(block);
        is_freed = true;
    }
    HAK_MINE(survived) = NULL;
    guard_misuse_forget();
    return is_freed;
}

void inside_survive_abort(void)
{
    if (HAK_MINE(survived) != NULL) siglongjmp(*HAK_MINE(survived), 1);
}

bool inside_profile_begin(size_t mean_bytes)
{
    inside_level_set(0);
    return profile_start(mean_bytes, 1) == 0;
}

bool inside_profile_dump(void)
{
    return profile_write("/dev/null") == 0;
}

struct inside_profile inside_profile_now(void)
{
    struct inside_profile now = {.used_bytes = profile_used_bytes()};
    for (const struct profile_site *site = profile_sites(); site != NULL; site = site->next) {
        now.bytes += atomic_load_explicit(&site->bytes, memory_order_relaxed);
        now.freed_bytes += atomic_load_explicit(&site->freed_bytes, memory_order_relaxed);
    }
    return now;
}

static uint64_t writer(uint32_t process, uint32_t thread)
{
    return (uint64_t)process << 32 | thread;
}

bool inside_crash_is_writer(uint32_t process, uint32_t thread)
{
    return crash_writer_is(writer(process, thread));
}

bool inside_crash_take(uint32_t process, uint32_t thread)
{
    return crash_writer_take(writer(process, thread));
}

void inside_crash_release(uint32_t process, uint32_t thread)
{
    crash_writer_release(writer(process, thread));
}

uint32_t inside_visit_idle(void)
{
    return visit_idle().given_back;
}

void inside_rounds_pass(void)
{
    for (uint32_t round = 0; round <= VISIT_ROUNDS; round++) pool_tick_force();
}

static void release_empty(struct superslab *superslab, void *unused)
{
    (void)unused;
    pool_release(superslab);
}

void inside_release_empty(void)
{
    pool_for_each(release_empty, NULL);
}

void inside_stats_signal_begin(void)
{
    stats_signal_start(SIGUSR1, STATS_DUE);
}

void inside_stats_signal(void)
{
    struct sigaction action;
    if (sigaction(SIGUSR1, NULL, &action) == 0) action.sa_handler(SIGUSR1);
}

void inside_dead_pages_free(void)
{
    own_dead_free_all();
}

void inside_commit_unreserved(void)
{
    os->commit((char *)arena_start() + ((size_t)(ARENA_GIB - 1) << 30), PAGE_BYTES);
}
