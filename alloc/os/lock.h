/* lock.h: the locks of the few slow paths that need one, by their rank. A thread takes them in
 * rising order only; under VALIDATE one taken out of order stops the process. They sleep on a
 * futex when held for long.
 *
 * fork: the forking thread takes all of them. While it has them all, its own lock_acquire and
 * lock_release do nothing, so that other atfork handlers may allocate, in whatever order handlers
 * were registered. */
#pragma once

enum lock_rank {
    LOCK_START, /* the process's first use of the heap */
    LOCK_HEAPS, /* a new heap */
    LOCK_HUGE,  /* huge descriptors and the cache of mappings */
    LOCK_POOL,  /* a new superslab */
    LOCK_META,  /* metadata memory */
    LOCK_COUNT,
};

/* Waits without bound. Not async-signal-safe. Keeps errno. */
void lock_acquire(enum lock_rank rank);
void lock_release(enum lock_rank rank);

/* Around fork, by the forking thread: before it, and after it in the parent and in the child. */
void lock_all_acquire(void);
void lock_all_release(void);
void lock_all_reset(void);
