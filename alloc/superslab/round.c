/* round.c: see round.h. */
#include "superslab/round.h"

#include "os/os.h"
#include "superslab/index.h"
#include "superslab/kept.h"
#include "superslab/pool.h"
#include "superslab/pool_make.h"
#include "superslab/purge.h"

/* --- what one malloc or free may do ---------------------------------------------------------------- */

HAK_TLS uint32_t round_calls_bound;

uint32_t round_calls_left(void)
{
    uint32_t bound = HAK_MINE(round_calls_bound);
    return bound == 0 ? UINT32_MAX : bound - 1;
}

void round_calls_made(uint32_t calls)
{
    uint32_t bound = HAK_MINE(round_calls_bound);
    if (bound != 0) HAK_MINE(round_calls_bound) = bound > calls ? bound - calls : 1;
}

/* --- a superslab ------------------------------------------------------------------------------------- */

static uint32_t get(_Atomic(uint32_t) *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static void set(_Atomic(uint32_t) *figure, uint32_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

/* If *calls does not suffice, the round comes to the superslab again, and the next round's pages are marked then. */
static uint32_t purge_superslab(struct superslab *superslab, enum round_what what, uint32_t *calls)
{
    /* These may be out of date: superslab_purge claims the pages before it purges them. */
    uint64_t idle = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) &
                    atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed);
    uint64_t cold = atomic_load_explicit(&superslab->cold_pages, memory_order_relaxed);
    uint64_t wanted = what == ROUND_ALL ? idle : idle & cold;
    uint32_t purged = wanted != 0 ? superslab_purge(superslab, wanted, calls) : 0;
    if (wanted != 0) index_raise(superslab); /* a search may have found it full while we held its pages */
    if (purged > 0) purge_count_purged(purged);
    if (*calls > 0) atomic_store_explicit(&superslab->cold_pages, idle & ~wanted, memory_order_relaxed);
    return purged;
}

uint32_t round_purge_superslab(struct superslab *superslab)
{
    uint32_t calls = UINT32_MAX;
    return purge_superslab(superslab, ROUND_ALL, &calls);
}

/* --- rounds ------------------------------------------------------------------------------------------- */

struct step {
    struct round *round;
    size_t dirty_pages_goal, purged, asked;
    uint32_t empty_max; /* empty superslabs that may keep their address space */
    uint32_t calls, superslabs; /* that it may still make, or look at */
    bool is_over;
};

static bool visit(struct superslab *superslab, void *context)
{
    struct step *step = context;
    step->is_over = step->dirty_pages_goal != 0 && purge_dirty_pages() <= step->dirty_pages_goal;
    const uint32_t calls = step->calls;
    uint32_t purged = 0;
    if (!step->is_over) purged = purge_superslab(superslab, (enum round_what)get(&step->round->what), &step->calls);
    step->purged += purged;
    step->asked += calls - step->calls;
    if (step->calls > 0 && atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) == ~0ull &&
        atomic_load_explicit(&superslab->dirty_pages, memory_order_relaxed) == 0) {
        uint32_t empty = get(&step->round->empty) + 1;
        set(&step->round->empty, empty);
        if (empty > step->empty_max) pool_release(superslab), step->calls--;
    }
    pool_trim(superslab);
    if (step->is_over) return false;
    /* With no call left it may have more to give, unless the system refuses all. */
    set(&step->round->end, superslab->index + (step->calls == 0 && purged > 0));
    return step->calls > 0 && --step->superslabs > 0;
}

uint32_t round_empty_max(bool everything)
{
    uint32_t half = everything ? 0 : (uint32_t)(pool_figures().superslab_count / 2);
    return half > EMPTY_SUPERSLABS_MIN ? half : EMPTY_SUPERSLABS_MIN;
}

void round_begin(struct round *round, enum round_what what, size_t dirty_pages_goal)
{
    set(&round->what, what);
    set(&round->empty, 0);
    atomic_store_explicit(&round->dirty_pages_goal, dirty_pages_goal, memory_order_relaxed);
    atomic_store_explicit(&round->purged, 0, memory_order_relaxed);
    atomic_store_explicit(&round->asked, 0, memory_order_relaxed);
    set(&round->end, POOL_TOP);
}

bool round_is_over(struct round *round)
{
    return get(&round->end) == 0;
}

void round_end(struct round *round)
{
    set(&round->end, 0);
}

static size_t goal_of(struct round *round)
{
    return atomic_load_explicit(&round->dirty_pages_goal, memory_order_relaxed);
}

void round_goal_raise(struct round *round, size_t dirty_pages_goal)
{
    if (dirty_pages_goal > goal_of(round))
        atomic_store_explicit(&round->dirty_pages_goal, dirty_pages_goal, memory_order_relaxed);
}

static size_t step_make(struct step *step)
{
    struct round *round = step->round;
    kept_give_back();
    step->dirty_pages_goal = goal_of(round);
    pool_for_each_below(get(&round->end), visit, step);
    atomic_fetch_add_explicit(&round->purged, step->purged, memory_order_relaxed);
    atomic_fetch_add_explicit(&round->asked, step->asked, memory_order_relaxed);
    if (step->is_over || (step->calls > 0 && step->superslabs > 0)) round_end(round);
    return step->purged;
}

size_t round_step(struct round *round, uint32_t calls_spared, uint32_t calls_more)
{
    const uint32_t left = round_calls_left();
    const bool is_whole = left == UINT32_MAX;
    const uint32_t calls = is_whole ? left : (left > calls_spared ? left - calls_spared : 0) + calls_more;
    if (calls == 0) return 0;
    const bool is_everything = get(&round->what) == ROUND_ALL && goal_of(round) == 0;
    struct step step = {.round = round,
                        .empty_max = round_empty_max(is_everything),
                        .calls = calls,
                        .superslabs = is_whole ? UINT32_MAX : PURGE_STEP_SUPERSLABS};
    if (!is_whole && calls_more != 0) step.superslabs *= 16; /* a look is two loads */
    step_make(&step);
    round_calls_made(calls - step.calls);
    return step.purged;
}

size_t round_whole(enum round_what what, size_t dirty_pages_goal, uint32_t empty_max)
{
    struct round round;
    round_begin(&round, what, dirty_pages_goal);
    struct step step = {.round = &round, .empty_max = empty_max, .calls = UINT32_MAX, .superslabs = UINT32_MAX};
    return step_make(&step);
}
