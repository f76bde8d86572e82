/* round.h: a walk over the superslabs that gives free pages back to the system. It is made whole, or in steps: one malloc or free
 * makes a bounded number of calls, and the next slow paths continue where it ended. A step holds no lock.
 *
 * The purge begins rounds and decides what they give back (purge.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/policy.h"
#include "superslab/superslab.h"

enum {
    PURGE_CALLS_MAX = 4, /* to the system, with which one malloc or free gives memory back */
    PURGE_STEP_SUPERSLABS = 128, /* that it looks at for that */
};

/* ROUND_COLD: pages that were free and dirty in the last round already; those that are free and dirty now, it marks for the next
 * round. */
enum round_what { ROUND_COLD, ROUND_ALL };

/* Two threads that make steps of one round at a time may look at a superslab twice. Then a page that the round has marked goes
 * back a round too early, which costs time at worst. So all is relaxed. */
struct round {
    _Atomic(uint32_t) end; /* the superslabs below are still to be looked at; 0: the round is over */
    _Atomic(uint32_t) what; /* enum round_what */
    _Atomic(uint32_t) empty; /* superslabs seen that have no page in use and no memory */
    _Atomic(size_t) dirty_pages_goal; /* the round ends when no more free dirty pages than this are left */
    _Atomic(size_t) purged; /* pages */
    _Atomic(size_t) asked; /* calls to the system to purge pages; if purged is 0, it has refused all of them */
};

/* Begins at the last superslab, since searches claim from the bottom. */
void round_begin(struct round *round, enum round_what what, size_t dirty_pages_goal);
bool round_is_over(struct round *round);
void round_goal_raise(struct round *round, size_t dirty_pages_goal); /* if it is higher than the round's */
void round_end(struct round *round);

/* Continues the round: whole, or as far as this malloc or free may. It leaves calls_spared of its calls, and may make calls_more
 * beyond them. Returns the number of pages purged. */
size_t round_step(struct round *round, uint32_t calls_spared, uint32_t calls_more);

/* A whole round, whatever this thread is about to do. It leaves empty_max empty superslabs their address space. */
size_t round_whole(enum round_what what, size_t dirty_pages_goal, uint32_t empty_max);

/* How many empty superslabs may stay: as many as are in use, since a loop's swings leave that many empty for a while.
 * Only the minimum where memory matters more than speed. */
uint32_t round_empty_max(bool everything);

/* Purges what the superslab has free and dirty. Returns the number of pages purged. */
uint32_t round_purge_superslab(struct superslab *superslab);

/* --- what one malloc or free may do ---------------------------------------------------------------- */

/* Between round_call_begins and round_call_ends the thread gives memory back with PURGE_CALLS_MAX calls to the system at most:
 * rounds, and trims (slab/trim.h), and as many more as a step says (calls_more). Elsewhere it has no bound: a free of an orphan's
 * block, a realloc that shrinks, frees of the program's own heaps and of sampled blocks, a delay of 0, and whole purges. */
extern HAK_HIDDEN HAK_TLS uint32_t round_calls_bound; /* one more than are left; 0: no bound */

static inline void round_call_begins(void)
{
    HAK_MINE(round_calls_bound) = PURGE_CALLS_MAX + 1;
}

static inline void round_call_ends(void)
{
    HAK_MINE(round_calls_bound) = 0;
}

uint32_t round_calls_left(void); /* UINT32_MAX: no bound */
void round_calls_made(uint32_t calls);
