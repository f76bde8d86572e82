/* lock.h: the locks of the few slow paths that need one, by their rank. A thread takes them in
 * rising order only; under VALIDATE one taken out of order stops the process. They sleep on a
 * futex when held for long.
 *
 * No lock is held across fork: a thread that waits for one may hold a lock of libc or of the
 * program that another atfork handler, or fork itself, wants (glibc BZ#19431, BZ#16742). Instead the
 * child finds out which locks a thread held that does not exist there, and mends what they protect. */
#pragma once

#include <stdbool.h>

enum lock_rank {
    LOCK_START, /* the process's first use of the heap */
    LOCK_HEAPS, /* a new heap */
    LOCK_HUGE,  /* huge descriptors and the cache of mappings */
    LOCK_GUARD, /* the queue of free guard slots */
    LOCK_POOL,  /* a new superslab */
    LOCK_META,  /* metadata memory */
    LOCK_COUNT,
};

/* Waits without bound. Not async-signal-safe. Keeps errno. Returns true once after a fork that
 * caught another thread holding the lock: what it protects may be half changed. */
bool lock_acquire(enum lock_rank rank);
void lock_release(enum lock_rank rank);

/* In the child after fork: every lock is free, and remembers whether it was held. */
void lock_all_reset(void);
