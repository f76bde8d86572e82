/* stats_write.h: the figures of hakmem.h's struct hak_figures, and where they are written: to a descriptor, at exit, at a
 * signal; a heap profile is written there too. The signal's handler only notes that it came: see report/writer.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As hak_stats_write. */
int stats_write(int fd, int format);

/* The target of the figures at exit and at the signal: "1" or "exit": text to the standard error of the start (report/first_error.h);
 * "json:PATH", "prom:PATH": a file, which is replaced. In its name %p is the process's number, %e the program's name. False: it
 * is none of these. Called once, at start. */
bool stats_target_set(const char *target);

/* Writes there. In a job (report/writer.h). */
void stats_write_to_target(void);

/* For libhakmem-exit.so (entry/exit.c): the same for a process that is about to end without exit(). Does nothing without
 * HAKMEM_STATS, and in a child of vfork(), which would end with its parent's figures. A handler of a signal may call it: see
 * writer_run_in_copy. */
__attribute__((visibility("default"))) void hak_private_stats_end(void);

/* Writes at this signal from now on: the figures, STATS_DUE, or a heap profile, PROFILE_DUE. Both may have the same signal. False: the system
 * refuses, or the signal is that of a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS). */
bool stats_signal_start(int signal, uint32_t what);

/* Writes what is due, in a slow path of a process without the library's thread. Leaves it to another thread that writes just
 * then. Keeps errno. */
void stats_write_due(void);

/* The same in the library's thread: waits for another thread that writes just then. */
void stats_write_due_waiting(void);
