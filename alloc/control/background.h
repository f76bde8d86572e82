/* background.h: the thread of the library's own, which gives idle memory back while the program's threads sleep (on their slow
 * paths heap/tick.h does that), and writes files that options ask for. There is no thread unless it is asked for: HAKMEM_BACKGROUND=1 and hak_background want rounds,
 * and options that ask for files before exit want somebody to write them (report/writer.h).
 *
 * It makes the rounds of the tick when no slow path does: it purges idle pages, drains and flushes orphans, and releases
 * cached mappings. It visits heaps whose threads are on no slow path (cache/visit.h). It has a name, blocks every signal
 * (os/own_thread.h), holds no heap, and allocates no block. Its creator allocates what pthread_create does.
 *
 * A forked child has no such thread; it may start one by hak_background(true). (The child of a fork may call little of
 * libc, and malloc is no place to start a thread. jemalloc decides likewise.) The thread ends when the library's
 * destructors run, so it does not outlive exit or dlclose; and when the first thread of the process ends, since libc ends the
 * process with its last thread, of which this would be one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts or ends the rounds; returns when that is done. 0, or an errno value if the system refuses a thread. Any thread
 * but this one. Keeps errno. */
int background_set(bool on);

/* Whether rounds were asked for, and there is a thread. */
bool background_is_on(void);

/* From now on there is a thread that writes what is due, unless the system refuses one. Called at start. */
void background_write_files(void);

/* Ends the thread. What is due afterwards, slow paths write. Called at exit. */
void background_end(void);

/* Ends it if the calling thread, which ends, is the first of the process. */
void background_end_with_first(void);

/* In the child after fork. */
void background_after_fork(void);

/* How many rounds it has made, in this process. */
uint64_t background_rounds(void);
