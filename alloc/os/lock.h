/* lock.h: the locks of the few slow paths that need one, each named by its rank. A thread takes locks only in the order
 * of rising rank; under VALIDATE a lock taken out of order ends the process. A thread that waits long sleeps on a
 * futex.
 *
 * fork takes none of them: a thread that waits for one may hold a lock of libc or of the program that fork itself, or
 * another atfork handler, needs (glibc BZ#19431, BZ#16742). Instead the child finds out which locks were held by
 * threads that it does not have, and repairs what they protect. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_rank {
    LOCK_BACKGROUND, /* start and end of the background thread */
    LOCK_START, /* the process's first use of the heap */
    LOCK_BOUND, /* the callback at the limit */
    LOCK_DUMP, /* the job that writes files (report/writer.h) */
    LOCK_VISIT, /* a visit to another thread's heap (cache/visit.h) */
    LOCK_HEAPS, /* a new heap */
    LOCK_OWN, /* one of the program's own heaps (heap/own.h): a lock_word in each */
    LOCK_OWN_HEAPS, /* the lists of these heaps, and their dead pages */
    LOCK_HUGE, /* huge descriptors and the cache of mappings */
    LOCK_GUARD, /* the queue of free guard slots */
    LOCK_PROFILE, /* the samples and sites of the heap profile */
    LOCK_POOL, /* a new superslab */
    LOCK_MODULES, /* what is known of modules */
    LOCK_META, /* metadata memory */
    LOCK_MAP, /* a slice more of the page map */
    LOCK_COUNT,
};

/* Waits without bound. Not async-signal-safe. Keeps errno. Returns true, once, where another thread held the lock when
 * this process was forked: the data that it protects may be half changed. */
bool lock_acquire(enum lock_rank rank);
void lock_release(enum lock_rank rank);

/* False at once if a thread holds it, the caller included. */
bool lock_try(enum lock_rank rank);

/* In the child after fork: frees every lock, and marks those that were held. */
void lock_all_reset(void);

/* Waits until each lock of a higher rank was free at some moment, at most about wait_ms. False: one was held all the time: by
 * a thread that is stopped, or by the caller, if it is a handler of a signal that came within malloc or free. */
bool lock_above_were_free(enum lock_rank rank, uint32_t wait_ms);

/* A lock inside an object, one of many of the same rank; a thread holds at most one of them. Zeroed memory is a free lock.
 * The layer that makes the objects finds those that were held at a fork, by lock_word_reset in the child. */
struct lock_word {
    _Atomic(uint32_t) state;
};

void lock_word_acquire(struct lock_word *word, enum lock_rank rank);

/* False at once if another thread holds it. */
bool lock_word_try(struct lock_word *word, enum lock_rank rank);
void lock_word_release(struct lock_word *word, enum lock_rank rank);

/* In the child after fork: frees the lock if a thread held it, and returns whether one did. Else it writes nothing. */
bool lock_word_reset(struct lock_word *word);
