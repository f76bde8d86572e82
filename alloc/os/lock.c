/* lock.c: locks of three states, after Drepper, "Futexes Are Tricky", mutex 2. See lock.h. */
#include "os/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/policy.h"
#include "base/sync_point.h"
#include "os/os.h"

enum { FREE, HELD, WAITED_FOR, SPINS = 64 };

struct lock {
    _Alignas(64) struct lock_word word;
    bool torn; /* a fork caught the lock held: see lock_acquire. Protected by the lock itself. */
};

static struct lock locks[LOCK_COUNT];
static HAK_TLS uint32_t ranks_held; /* bit r: this thread holds the lock of rank r; VALIDATE only */

/* gate: the debug-validation build ends the process */
static void rank_check(enum lock_rank rank)
{
    if (HAK_MINE(ranks_held) >> rank == 0) return;
    static const char text[] =
        "hakmem: failfast: lock_rank: a lock was taken out of order, by a bug of the library, or by a handler of a signal "
        "that came within malloc or free\n";
    os_write_error(text, sizeof text - 1);
    abort();
}

/* The thread has the lock. While it waited it did not, and a handler of a signal may have taken any. */
static void rank_enter(enum lock_rank rank)
{
    HAK_MINE(ranks_held) |= 1u << rank;
}

/* gate: the debug-validation build ends the process */
static void rank_leave(enum lock_rank rank)
{
    if ((HAK_MINE(ranks_held) >> rank & 1) != 0) {
        HAK_MINE(ranks_held) &= ~(1u << rank);
        return;
    }
    static const char text[] = "hakmem: failfast: lock_rank: a lock was released that is not held\n";
    os_write_error(text, sizeof text - 1);
    abort();
}

/* seq_cst, on failure too, and in lock_word_release: see own_unlock. It acquires what the exchange there releases. */
static bool try(struct lock_word *word)
{
    uint32_t state = FREE;
    return atomic_compare_exchange_strong_explicit(&word->state, &state, HELD, memory_order_seq_cst,
                                                   memory_order_seq_cst);
}

/* A look before the next try: a compare-exchange takes the cache line even if it fails, and the holder needs that line. */
static bool try_if_free(struct lock_word *word)
{
    return atomic_load_explicit(&word->state, memory_order_relaxed) == FREE && try(word);
}

/* lock_word_acquire where another thread holds the lock. */
static HAK_NOINLINE void lock_wait(struct lock_word *word)
{
    bool held = false;
    const int spins = sync_points_are_hooked() ? 0 : SPINS - 1;
    for (int spin = 0; spin < spins && !held; spin++) held = try_if_free(word);
    /* acquire: it is none of own_unlock's four steps. WAITED_FOR stays until a release finds it, so that no waiter is lost. A
     * thread that wakes takes the lock in that state, since others may still wait. Under a test's scheduler the holder does not
     * run until this thread yields, so this thread must not sleep in the system. */
    while (!held) {
        if (sync_points_are_hooked()) {
            sync_point("lock_wait");
            held = try(word);
            continue;
        }
        held = atomic_exchange_explicit(&word->state, WAITED_FOR, memory_order_acquire) == FREE;
        if (!held) os_wait((uint32_t *)&word->state, WAITED_FOR);
    }
}

static void note_held(enum lock_rank rank)
{
    if (VALIDATE) rank_enter(rank);
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, false);
}

void lock_word_acquire(struct lock_word *word, enum lock_rank rank)
{
    if (VALIDATE) rank_check(rank);
    sync_point("lock_acquire");
    if (HAK_UNLIKELY(!try(word))) lock_wait(word);
    note_held(rank);
}

bool lock_word_try(struct lock_word *word, enum lock_rank rank)
{
    sync_point("lock_try");
    if (!try(word)) return false;
    if (VALIDATE) rank_check(rank);
    note_held(rank);
    return true;
}

void lock_word_release(struct lock_word *word, enum lock_rank rank)
{
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, true);
    if (VALIDATE) rank_leave(rank);
    /* release, and more: publishes what the lock protects to the thread that takes it next. */
    if (atomic_exchange_explicit(&word->state, FREE, memory_order_seq_cst) == WAITED_FOR)
        os_wake_one((uint32_t *)&word->state);
    sync_point("lock_release");
}

bool lock_word_reset(struct lock_word *word)
{
    /* relaxed: the child has one thread, and no waiter. */
    if (atomic_load_explicit(&word->state, memory_order_relaxed) == FREE) return false;
    atomic_store_explicit(&word->state, FREE, memory_order_relaxed);
    return true;
}

/* --- the locks of the heap as a whole -------------------------------------------------------------------------- */

bool lock_acquire(enum lock_rank rank)
{
    lock_word_acquire(&locks[rank].word, rank);
    bool torn = locks[rank].torn;
    locks[rank].torn = false;
    return torn;
}

bool lock_try(enum lock_rank rank)
{
    if (!lock_word_try(&locks[rank].word, rank)) return false;
    locks[rank].torn = false;
    return true;
}

void lock_release(enum lock_rank rank)
{
    lock_word_release(&locks[rank].word, rank);
}

void lock_all_reset(void)
{
    for (enum lock_rank rank = 0; rank < LOCK_COUNT; rank++)
        if (lock_word_reset(&locks[rank].word)) locks[rank].torn = true;
}

bool lock_above_were_free(enum lock_rank rank, uint32_t wait_ms)
{
    for (enum lock_rank each = rank + 1; each < LOCK_COUNT; each++) {
        /* relaxed: nothing is read that the lock protects. A release wakes a sleeper only in the state WAITED_FOR. */
        uint32_t state;
        while ((state = atomic_load_explicit(&locks[each].word.state, memory_order_relaxed)) != FREE) {
            if (wait_ms-- == 0) return false;
            os_wait_ms((uint32_t *)&locks[each].word.state, state, 1);
        }
    }
    return true;
}
