/* purge.c: see purge.h. More than 400 lines: the counts, what is learned from them, and the rounds that follow. */
#include "superslab/purge.h"

#include <stdalign.h>

#include "os/os.h"
#include "superslab/backing.h"
#include "superslab/kept.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/round.h"

/* The figures and settings here order nothing: relaxed everywhere. */

enum { CLAIMED_SHIFT = 32, FILL_ONE = 64 };

/* Every claim and free of pages writes these. They share a cache line, so that it moves between cores once for all of
 * them. */
static struct {
    /* The upper half counts pages in use, the lower half free dirty pages, so that one addition changes both. The lower
     * half never borrows, since freed pages are counted before another thread can claim them. */
    alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) counts;
    _Atomic(size_t) run_pages; /* in use */
    _Atomic(size_t) run_pages_peak, claimed_pages_peak; /* in this window */
    _Atomic(size_t) dirty_pages_peak, dirty_pages_low; /* in this window; the difference was in use */
    _Atomic(size_t) keep_eighths; /* how many pages the limit in number has learned to keep, in eighths of a page */
    /* How many eighths of the lately freed slabs were used, times FILL_ONE: a moving mean in which the newest slab weighs
     * an eighth. */
    _Atomic(size_t) slab_fill;
} pages_now = {.slab_fill = FILL_ONE};

static_assert(sizeof pages_now == CACHE_LINE_BYTES, "one line");

/* Every call reads these, and few write them: on a line of their own. */
static struct {
    alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) due_ms;
    _Atomic(uint64_t) useless_until_ms;
    _Atomic(uint64_t) window_end_ms;
    _Atomic(size_t) early_pages; /* purged in this window or the one before, and not claimed since */
    _Atomic(size_t) keep_eighths_least; /* by HAKMEM_PREWARM */
    _Atomic(uint32_t) rounds;
    _Atomic(uint32_t) delay_ms;
} seldom = {.delay_ms = PURGE_DELAY_MS};

/* Of the window before. */
static struct {
    _Atomic(size_t) early_pages; /* those of early_pages that count no longer when this window ends */
    _Atomic(size_t) run_pages_peak, claimed_pages_peak, dirty_pages_peak;
    _Atomic(bool) swings;
} earlier;

static size_t get(_Atomic(size_t) *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static void set(_Atomic(size_t) *figure, size_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

uint32_t purge_delay_ms(void)
{
    return atomic_load_explicit(&seldom.delay_ms, memory_order_relaxed);
}

void purge_way_set(bool has_threads)
{
    /* In a child each page purged of the parent's superslabs may be a mapping of its own: 65530 is the system's limit. */
    const bool has_much = pool_figures().superslab_count > INHERITED_SUPERSLABS_MAX;
    os_purge_by_advice(has_threads || has_much || backing_huge_policy() != HUGE_OFF);
}

/* --- counts --------------------------------------------------------------------------------------- */

/* Of runs that are kept too: counts does not change while a loop frees a run and takes it again. */
static size_t counted_pages(void)
{
    return (size_t)(atomic_load_explicit(&pages_now.counts, memory_order_relaxed) >> CLAIMED_SHIFT);
}

static size_t counted_dirty_pages(void)
{
    return (uint32_t)atomic_load_explicit(&pages_now.counts, memory_order_relaxed);
}

/* The figures may be of different moments. */
static size_t without_kept(size_t pages)
{
    size_t kept = kept_pages();
    return pages > kept ? pages - kept : 0;
}

size_t purge_claimed_pages(void)
{
    return without_kept(counted_pages());
}

size_t purge_dirty_pages(void)
{
    return counted_dirty_pages() + kept_pages();
}

bool purge_any_dirty(void)
{
    return counted_dirty_pages() != 0 || kept_pages_bound() != 0;
}

size_t purge_committed_pages(void)
{
    uint64_t counts = atomic_load_explicit(&pages_now.counts, memory_order_relaxed);
    return (size_t)(counts >> CLAIMED_SHIFT) + (uint32_t)counts;
}

size_t purge_run_pages(void)
{
    return without_kept(get(&pages_now.run_pages));
}

static void peak_update(_Atomic(size_t) *peak, size_t value)
{
    if (value > get(peak)) set(peak, value);
}

static size_t most(_Atomic(size_t) *now, _Atomic(size_t) *in_earlier)
{
    size_t a = get(now), b = get(in_earlier);
    return a > b ? a : b;
}

static void less(_Atomic(size_t) *figure, size_t value)
{
    size_t is = get(figure);
    set(figure, is > value ? is - value : 0);
}

/* Clean pages were claimed while early_pages is not 0: as many of them were purged too early. Raises the limit. */
static HAK_COLD void learn(size_t early, size_t clean, bool is_run)
{
    size_t learned = clean < early ? clean : early;
    less(&earlier.early_pages, learned);
    /* Runs count one and a half times, since a loop's longest swings come seldom. */
    size_t keep = get(&pages_now.keep_eighths) + learned * (is_run ? 12 : get(&pages_now.slab_fill) / FILL_ONE);
    /* Runs of many lengths leave gaps between them: as many pages lie free there as are in use. */
    size_t in_use_peak = is_run ? 2 * most(&pages_now.run_pages_peak, &earlier.run_pages_peak)
                                : most(&pages_now.claimed_pages_peak, &earlier.claimed_pages_peak);
    size_t keep_max = 8 * (in_use_peak + DIRTY_PAGES_MIN); /* beside the pages that may lie free in any case */
    set(&seldom.early_pages, early - learned);
    peak_update(&pages_now.keep_eighths, keep < keep_max ? keep : keep_max);
}

void purge_count_claim(uint32_t pages, uint32_t dirty_pages, bool is_run)
{
    uint64_t change = ((uint64_t)pages << CLAIMED_SHIFT) - dirty_pages;
    uint64_t after = atomic_fetch_add_explicit(&pages_now.counts, change, memory_order_relaxed) + change;
    peak_update(&pages_now.claimed_pages_peak, (size_t)(after >> CLAIMED_SHIFT));
    if ((uint32_t)after < get(&pages_now.dirty_pages_low)) set(&pages_now.dirty_pages_low, (uint32_t)after);
    if (is_run) {
        size_t before = atomic_fetch_add_explicit(&pages_now.run_pages, pages, memory_order_relaxed);
        peak_update(&pages_now.run_pages_peak, before + pages);
    }
    size_t early = get(&seldom.early_pages), clean = pages - dirty_pages;
    if (HAK_UNLIKELY(early > 0 && clean > 0)) learn(early, clean, is_run);
}

void purge_count_free(uint32_t pages, uint32_t slab_eighths)
{
    uint64_t change = ((uint64_t)pages << CLAIMED_SHIFT) - pages;
    uint64_t after = atomic_fetch_sub_explicit(&pages_now.counts, change, memory_order_relaxed) - change;
    peak_update(&pages_now.dirty_pages_peak, (uint32_t)after);
    if (slab_eighths == 0) {
        atomic_fetch_sub_explicit(&pages_now.run_pages, pages, memory_order_relaxed);
    } else {
        size_t fill = get(&pages_now.slab_fill);
        set(&pages_now.slab_fill, fill - fill / 8 + slab_eighths * FILL_ONE / 8);
    }
}

static _Atomic(size_t) purged_pages; /* ever */

size_t purge_purged_pages(void)
{
    return get(&purged_pages);
}

size_t purge_keep_pages(void)
{
    return get(&pages_now.keep_eighths) / 8;
}

void purge_count_purged(uint32_t pages)
{
    atomic_fetch_add_explicit(&purged_pages, pages, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pages_now.counts, pages, memory_order_relaxed);
    /* A purge is no use of the pages. */
    less(&pages_now.dirty_pages_peak, pages);
    less(&pages_now.dirty_pages_low, pages);
}

/* --- when ------------------------------------------------------------------------------------------ */

static size_t dirty_pages_max(void)
{
    if (limit_soft_exceeded()) return SOFT_DIRTY_PAGES_MAX;
    size_t share = counted_pages() >> DIRTY_SHARE_LOG2;
    size_t least = share > DIRTY_PAGES_MIN ? share : DIRTY_PAGES_MIN;
    size_t keep = get(&pages_now.keep_eighths) / 8;
    return keep > least ? keep : least;
}

/* Each is made in steps, which slow paths and the tick continue. */
static struct round of_limit, of_tick;

enum { TRIM_CALLS_SPARED = 1 }; /* by of_limit, so that a heap's trim does not wait for its end */

bool purge_is_owed(void)
{
    return !round_is_over(&of_limit);
}

static size_t goal_below(size_t dirty_max)
{
    if (limit_soft_exceeded()) return 0;
    /* Half, so that rounds are few; but of what was learned most stays, since it is wanted again. */
    const size_t more = get(&pages_now.keep_eighths) / 8 >= dirty_max ? dirty_max / 8 : dirty_max / 2;
    size_t goal = dirty_max - more, least = get(&seldom.keep_eighths_least) / 8;
    if (goal >= least) return goal;
    return least < dirty_max ? least : dirty_max;
}

static HAK_COLD void purge_over_limit(size_t dirty_max)
{
    if (round_is_over(&of_limit)) {
        if (purge_dirty_pages() <= dirty_max) { /* only the bound of what is kept was too high: lower it */
            kept_give_back();
            return;
        }
        uint64_t now_ms = os_now_ms();
        if (now_ms < atomic_load_explicit(&seldom.useless_until_ms, memory_order_relaxed)) return;
        round_begin(&of_limit, ROUND_ALL, goal_below(dirty_max));
    }
    round_goal_raise(&of_limit, goal_below(dirty_max)); /* the limit may have learned since the round began */
    /* The program may free no more: the next slow paths must not have much to do. So each page beyond the debt is worth a call
     * more. One slow path frees a bounded number of pages, so the calls beyond PURGE_CALLS_MAX have a bound too. */
    const size_t dirty = purge_dirty_pages(), may_wait = dirty_max + PURGE_DEBT_PAGES_MAX;
    const size_t more = dirty > may_wait ? dirty - may_wait : 0;
    const size_t purged =
        round_step(&of_limit, TRIM_CALLS_SPARED, more < PURGE_DEBT_PAGES_MAX ? (uint32_t)more : PURGE_DEBT_PAGES_MAX);
    if (purged != 0) set(&seldom.early_pages, get(&seldom.early_pages) + purged);
    if (!round_is_over(&of_limit) || purge_dirty_pages() <= dirty_max) return;
    /* Locked memory cannot be purged: after a round that the system has refused, wait a delay instead of trying at each free. A
     * round that has asked for nothing says nothing: another thread is purging the pages, or has claimed them for a while. */
    if (get(&of_limit.purged) == 0 && get(&of_limit.asked) != 0)
        atomic_store_explicit(&seldom.useless_until_ms, os_now_ms() + purge_delay_ms(), memory_order_relaxed);
    /* Pages are left that became free behind the steps. No free may come that would find them. */
    else round_begin(&of_limit, ROUND_ALL, goal_below(dirty_max));
}

void purge_after_keep(void)
{
    size_t dirty_max = dirty_pages_max();
    if (HAK_UNLIKELY(counted_dirty_pages() + kept_pages_bound() > dirty_max || purge_is_owed()))
        purge_over_limit(dirty_max);
}

void purge_after_free(struct superslab *superslab)
{
    if (HAK_UNLIKELY(purge_delay_ms() == 0)) {
        round_purge_superslab(superslab);
        pool_tick(os_now_ms()); /* releases empty superslabs: nothing else would, as no page is dirty */
        return;
    }
    purge_after_keep();
}

static bool swings(void)
{
    size_t low = get(&pages_now.dirty_pages_low), peak = get(&pages_now.dirty_pages_peak);
    return peak > low && peak - low >= peak / 8;
}

static void forget_a_little(void)
{
    size_t keep = get(&pages_now.keep_eighths);
    bool in_use = swings() || atomic_load_explicit(&earlier.swings, memory_order_relaxed);
    /* One and a half times the peak, as in learn(). */
    size_t floor = in_use ? 12 * most(&pages_now.dirty_pages_peak, &earlier.dirty_pages_peak) : 0;
    size_t fade = in_use ? 64 : 2; /* slowly while it is used; unused, it is gone in seconds */
    size_t rest = keep - (keep + fade - 1) / fade;
    size_t faded = keep < floor ? keep : rest > floor ? rest : floor;
    size_t least = get(&seldom.keep_eighths_least);
    set(&pages_now.keep_eighths, faded > least ? faded : least);
}

static void window_turn(void)
{
    atomic_store_explicit(&earlier.swings, swings(), memory_order_relaxed);
    set(&earlier.run_pages_peak, get(&pages_now.run_pages_peak));
    set(&earlier.claimed_pages_peak, get(&pages_now.claimed_pages_peak));
    set(&earlier.dirty_pages_peak, get(&pages_now.dirty_pages_peak));
    set(&pages_now.dirty_pages_peak, purge_dirty_pages());
    set(&pages_now.dirty_pages_low, purge_dirty_pages());
    set(&pages_now.claimed_pages_peak, purge_claimed_pages());
    set(&pages_now.run_pages_peak, get(&pages_now.run_pages));
    less(&seldom.early_pages, get(&earlier.early_pages));
    set(&earlier.early_pages, get(&seldom.early_pages));
}

/* What a program does at intervals is seen in a window of some delays and in the one before: whatever comes again within
 * WINDOW_DELAYS counts as wanted again. */
static void window_tick(uint64_t now_ms, uint64_t delay_ms)
{
    uint64_t end = atomic_load_explicit(&seldom.window_end_ms, memory_order_relaxed);
    if (now_ms < end) return;
    window_turn();
    if (now_ms >= end + WINDOW_DELAYS * delay_ms) window_turn();
    atomic_store_explicit(&seldom.window_end_ms, now_ms + WINDOW_DELAYS * delay_ms, memory_order_relaxed);
}

uint32_t pool_tick_rounds(void)
{
    return atomic_load_explicit(&seldom.rounds, memory_order_relaxed);
}

void pool_tick_force(void)
{
    atomic_fetch_add_explicit(&seldom.rounds, 1, memory_order_relaxed);
}

/* Whether a round is due: then begins it, unless the one before is not over. */
static bool tick_begins(uint64_t now_ms)
{
    uint64_t due = atomic_load_explicit(&seldom.due_ms, memory_order_relaxed);
    if (HAK_LIKELY(now_ms < due)) return false;
    uint64_t wait_ms =
        purge_delay_ms() > 0 ? purge_delay_ms() : PURGE_DELAY_MS; /* at 0 only empty superslabs are left to release */
    /* unreached: by chance: two threads find the purge due at one time */
    /* The thread that advances due_ms begins the round. Others need not wait: a purger claims the pages that it
     * purges. */
    if (!atomic_compare_exchange_strong_explicit(&seldom.due_ms, &due, now_ms + wait_ms, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    /* The pages that the limit in number has learned to keep are exempt from the limit in time too, while they are
     * used: the pages of a loop's longest swings are sometimes idle for more than a delay. */
    forget_a_little();
    window_tick(now_ms, wait_ms);
    /* Nobody was on a slow path for some delays, so what is idle has been idle for as long, though no round has marked it. A
     * program that works in bursts takes it again at once: then it was taken back too early, and the limit rises. */
    bool was_paused = due != 0 && now_ms - due >= (uint64_t)(PAUSE_DELAYS - 1) * wait_ms;
    if (was_paused || round_is_over(&of_tick))
        round_begin(&of_tick, was_paused ? ROUND_ALL : ROUND_COLD, get(&pages_now.keep_eighths) / 8);
    return true;
}

static HAK_COLD void tick_step(void)
{
    round_step(&of_tick, 0, 0);
    if (!round_is_over(&of_tick)) return;
    set(&seldom.early_pages, get(&seldom.early_pages) + get(&of_tick.purged));
    if (HAK_UNLIKELY(backing_huge_policy() == HUGE_FULL)) backing_round();
}

bool pool_tick(uint64_t now_ms)
{
    if (HAK_UNLIKELY(purge_is_owed())) purge_after_keep();
    const bool begins = tick_begins(now_ms);
    if (HAK_UNLIKELY(!round_is_over(&of_tick))) tick_step();
    if (begins) atomic_fetch_add_explicit(&seldom.rounds, 1, memory_order_relaxed);
    return begins;
}

static void window_forget(void)
{
    set(&pages_now.dirty_pages_peak, 0);
    set(&pages_now.dirty_pages_low, 0);
    set(&pages_now.claimed_pages_peak, 0);
    set(&pages_now.run_pages_peak, 0);
    window_turn();
    set(&seldom.early_pages, 0);
    set(&earlier.early_pages, 0);
}

static size_t purge_all(uint32_t empty)
{
    size_t purged = round_whole(ROUND_ALL, 0, empty);
    round_end(&of_limit);
    set(&seldom.keep_eighths_least, 0);
    set(&pages_now.keep_eighths, 0); /* here memory matters more than speed */
    set(&pages_now.slab_fill, FILL_ONE);
    window_forget();
    atomic_store_explicit(&seldom.useless_until_ms, 0, memory_order_relaxed);
    return purged * PAGE_BYTES;
}

size_t pool_purge_all(void)
{
    return purge_all(round_empty_max(true));
}

void pool_make_room(void)
{
    purge_all(0);
}

void pool_purge_some(size_t pages)
{
    size_t dirty = purge_dirty_pages();
    size_t goal = dirty > pages ? dirty - pages : 0;
    round_whole(ROUND_ALL, goal, round_empty_max(goal == 0));
}

void purge_keep_at_least(size_t pages)
{
    set(&seldom.keep_eighths_least, 8 * pages);
    peak_update(&pages_now.keep_eighths, 8 * pages);
}

void pool_set_purge_delay_ms(uint32_t ms)
{
    atomic_store_explicit(&seldom.delay_ms, ms, memory_order_relaxed);
}
