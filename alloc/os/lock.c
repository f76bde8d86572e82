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
    _Alignas(64) _Atomic(uint32_t) state;
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

static bool try(struct lock *lock)
{
    uint32_t state = FREE;
    /* acquire: pairs with the release exchange in lock_release. */
    return atomic_compare_exchange_strong_explicit(&lock->state, &state, HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* A look before the next try: a compare-exchange takes the cache line even if it fails, and the holder needs that line. */
static bool try_if_free(struct lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == FREE && try(lock);
}

/* lock_acquire where another thread holds the lock. */
static HAK_NOINLINE void lock_wait(struct lock *lock)
{
    bool held = false;
    const int spins = sync_points_are_hooked() ? 0 : SPINS - 1;
    for (int spin = 0; spin < spins && !held; spin++) held = try_if_free(lock);
    /* acquire: as in try. WAITED_FOR stays until a release finds it, so that no waiter is lost. A thread that wakes
     * takes the lock in that state, since others may still wait. Under a test's scheduler the holder does not run until
     * this thread yields, so this thread must not sleep in the system. */
    while (!held) {
        if (sync_points_are_hooked()) {
            sync_point("lock_wait");
            held = try(lock);
            continue;
        }
        held = atomic_exchange_explicit(&lock->state, WAITED_FOR, memory_order_acquire) == FREE;
        if (!held) os_wait((uint32_t *)&lock->state, WAITED_FOR);
    }
}

bool lock_acquire(enum lock_rank rank)
{
    if (VALIDATE) rank_check(rank);
    struct lock *lock = &locks[rank];
    sync_point("lock_acquire");
    if (HAK_UNLIKELY(!try(lock))) lock_wait(lock);
    if (VALIDATE) rank_enter(rank);
    bool torn = lock->torn;
    lock->torn = false;
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, false);
    return torn;
}

bool lock_try(enum lock_rank rank)
{
    struct lock *lock = &locks[rank];
    sync_point("lock_try");
    if (!try(lock)) return false;
    if (VALIDATE) rank_check(rank);
    if (VALIDATE) rank_enter(rank);
    lock->torn = false;
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, false);
    return true;
}

void lock_release(enum lock_rank rank)
{
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, true);
    if (VALIDATE) rank_leave(rank);
    struct lock *lock = &locks[rank];
    /* release: publishes what the lock protects to the next lock_acquire. */
    if (atomic_exchange_explicit(&lock->state, FREE, memory_order_release) == WAITED_FOR)
        os_wake_one((uint32_t *)&lock->state);
    sync_point("lock_release");
}

void lock_all_reset(void)
{
    /* relaxed: the child has one thread, and no waiter. */
    for (enum lock_rank rank = 0; rank < LOCK_COUNT; rank++) {
        if (atomic_load_explicit(&locks[rank].state, memory_order_relaxed) != FREE) locks[rank].torn = true;
        atomic_store_explicit(&locks[rank].state, FREE, memory_order_relaxed);
    }
}

bool lock_above_were_free(enum lock_rank rank, uint32_t wait_ms)
{
    for (enum lock_rank each = rank + 1; each < LOCK_COUNT; each++) {
        /* relaxed: nothing is read that the lock protects. A release wakes a sleeper only in the state WAITED_FOR. */
        uint32_t state;
        while ((state = atomic_load_explicit(&locks[each].state, memory_order_relaxed)) != FREE) {
            if (wait_ms-- == 0) return false;
            os_wait_ms((uint32_t *)&locks[each].state, state, 1);
        }
    }
    return true;
}

/* --- locks in objects -------------------------------------------------------------------------------- */

/* seq_cst, on failure too, and in lock_word_release: see own_unlock. */
static bool word_try(struct lock_word *word)
{
    uint32_t state = FREE;
    return atomic_compare_exchange_strong_explicit(&word->state, &state, HELD, memory_order_seq_cst,
                                                   memory_order_seq_cst);
}

static void word_is_held(enum lock_rank rank)
{
    if (VALIDATE) rank_check(rank);
    if (VALIDATE) rank_enter(rank);
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, false);
}

bool lock_word_try(struct lock_word *word, enum lock_rank rank)
{
    sync_point("lock_try");
    if (!word_try(word)) return false;
    word_is_held(rank);
    return true;
}

void lock_word_acquire(struct lock_word *word, enum lock_rank rank)
{
    sync_point("lock_acquire");
    bool held = word_try(word);
    const int spins = sync_points_are_hooked() ? 0 : SPINS - 1;
    /* relaxed: as in try_if_free. */
    for (int spin = 0; spin < spins && !held; spin++)
        held = atomic_load_explicit(&word->state, memory_order_relaxed) == FREE && word_try(word);
    while (!held) { /* as in lock_acquire */
        if (sync_points_are_hooked()) {
            sync_point("lock_wait");
            held = word_try(word);
            continue;
        }
        /* acquire: it is none of own_unlock's four steps. */
        held = atomic_exchange_explicit(&word->state, WAITED_FOR, memory_order_acquire) == FREE;
        if (!held) os_wait((uint32_t *)&word->state, WAITED_FOR);
    }
    word_is_held(rank);
}

void lock_word_release(struct lock_word *word, enum lock_rank rank)
{
    if (VALIDATE && HAK_UNLIKELY(sync_lock_hook != NULL)) sync_lock_hook(rank, true);
    if (VALIDATE) rank_leave(rank);
    if (atomic_exchange_explicit(&word->state, FREE, memory_order_seq_cst) == WAITED_FOR)
        os_wake_one((uint32_t *)&word->state);
    sync_point("lock_release");
}

bool lock_word_reset(struct lock_word *word)
{
    /* relaxed: as in lock_all_reset. */
    if (atomic_load_explicit(&word->state, memory_order_relaxed) == FREE) return false;
    atomic_store_explicit(&word->state, FREE, memory_order_relaxed);
    return true;
}
