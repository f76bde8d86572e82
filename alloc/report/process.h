/* process.h: which process writes a text, and when. Nothing here allocates. Any thread. */
#pragma once

#include <stdint.h>

enum { PROCESS_NAME_BYTES = 64, PROCESS_TIME_BYTES = 32 };

/* At the start of the process: from now on its age counts, and its name stays. */
void process_start(void);

/* In the child after fork. */
void process_after_fork(void);

/* The process's number. A child that did not come from fork(), of vfork() or of clone(), has its parent's. */
int process_number(void);

/* The name by which the program was called, without folders: that of the start, since servers write what they do over it
 * ("nginx: worker process"). What is not a letter, a digit or one of ._+- is a _, so that it may be a part of a file's
 * name, of JSON and of a label. */
void process_name(char name[PROCESS_NAME_BYTES]);

/* The time of day, as 2026-11-27T20:10:03Z; the same of seconds since 1970. */
void process_time(char text[PROCESS_TIME_BYTES]);
void process_time_text(char text[PROCESS_TIME_BYTES], uint64_t seconds);

uint64_t process_age_ms(void);

/* What of the process is resident, and the most that was so far, by the kernel's count; 0: it does not tell. */
struct process_memory {
    uint64_t resident_bytes, resident_peak_bytes;
};
struct process_memory process_memory(void);

/* Has process_memory in a copy of the process tell what it tells now. */
void process_memory_keep(void);
