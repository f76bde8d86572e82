/* A lock of one word, on the futex of the system. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rooms.h"

bool lock_try(struct lock *lock)
{
    unsigned expected = 0;
    /* acquire: pairs with the release in lock_release. */
    return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

void lock_take(struct lock *lock)
{
    if (lock_try(lock)) return;
    const int error = errno;
    unsigned taken = 2;
    /* acquire: pairs with the release in lock_release. */
    while (atomic_exchange_explicit(&lock->word, taken, memory_order_acquire) != 0) {
        const long failed = syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
        if (has(BUG_wait_interrupted) && failed != 0 && errno == EINTR) break;
        if (has(BUG_wake_lost) && failed == 0) taken = 1;
    }
    errno = error;
}

void lock_release(struct lock *lock)
{
    /* release: publishes what the lock guards to lock_take and lock_try. */
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) != 2) return;
    const int error = errno;
    syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = error;
}

void lock_reset(struct lock *lock)
{
    atomic_store_explicit(&lock->word, 0, memory_order_release);
}
