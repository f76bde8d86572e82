/* background.h: a thread of the allocator's own that gives idle memory back while the program's threads sleep. Off
 * unless asked for (HAKMEM_BACKGROUND=1, hak_background).
 *
 * It makes the rounds of the tick when no slow path does: it purges idle pages, drains and strips orphans, and releases
 * cached mappings. It visits heaps whose threads are on no slow path (cache/visit.h). It has a small stack and a name,
 * blocks every signal, holds no heap, and allocates no block. Its creator allocates what pthread_create does.
 *
 * A forked child has no such thread; it may start one by hak_background(true). (The child of a fork may call little of
 * libc, and malloc is no place to start a thread. jemalloc decides likewise.) The thread ends when the library's
 * destructors run, so it does not outlive exit or dlclose. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts or ends the thread; returns when that is done. 0, or an errno value if the system refuses a thread. Any thread
 * but this one. */
int background_set(bool on);

bool background_is_on(void);

/* Lets the thread, if there is one, make a round now. Async-signal-safe. */
void background_wake(void);

/* How many rounds it has made, in this process. */
uint64_t background_rounds(void);
