/* inside_watch.h: for scenarios, what watches the heap: the levels of checks, frames, sampled blocks, the heap profile,
 * reports, the crash record's writer. The allocator is linked in, as for inside.h. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For setup: the level of checks from now on. Sampled and profiled blocks need level 0. */
void inside_level_set(int level);

/* For setup: a bad call is reported and does nothing, and the program continues. */
void inside_refuse(void);

/* At level 2: takes a live block as free does. False: another thread has it. */
bool inside_frame_take(void *block);
/* Gives a block that was taken so to the quarantine. */
void inside_frame_put(void *block);
/* Whether a block waits in the quarantine of any thread. */
bool inside_frame_waits(const void *block);

/* For setup: about every second allocation of a list of one is sampled, in this number of slots. False: no memory. */
bool inside_guard_begin(uint32_t slots);
struct inside_guard {
    uint64_t sampled;
    uint32_t live;
};
struct inside_guard inside_guard_now(void);
void inside_guard_rate(uint32_t rate);
/* What reports know of an address: whether it is in a sampled block that is live. */
bool inside_guard_is_live(const void *address);
/* Frees a sampled block. False: it was found to be freed already, and the thread has survived the abort. */
bool inside_guard_free(void *block);
/* For the handler of SIGABRT: does not return where a thread survives it. */
void inside_survive_abort(void);

/* For setup: starts the heap profile with a fixed seed. False: no memory. */
bool inside_profile_begin(size_t mean_bytes);
/* Writes the profile to a file that nobody reads. False: it cannot be written. */
bool inside_profile_dump(void);
/* The profile's estimate of what is in use, and its sites' sums of what was allocated and freed. */
struct inside_profile {
    uint64_t used_bytes, bytes, freed_bytes;
};
struct inside_profile inside_profile_now(void);

/* The crash record's writer (crash/crash_writer.h), as threads `thread` of process `process`. */
bool inside_crash_is_writer(uint32_t process, uint32_t thread);
bool inside_crash_take(uint32_t process, uint32_t thread);
void inside_crash_release(uint32_t process, uint32_t thread);

/* A round of what the background thread does with heaps whose threads were on no slow path for a while. Returns the number
 * of heaps that gave something back. */
uint32_t inside_visit_idle(void);
/* For setup: the rounds that pass until then. */
void inside_rounds_pass(void);

/* Gives back the superslabs that are free and clean. */
void inside_release_empty(void);

/* For setup: figures are written at a signal. What its handler does. */
void inside_stats_signal_begin(void);
void inside_stats_signal(void);

/* Gives back the pages of destroyed heaps, which the checks remember. */
void inside_dead_pages_free(void);

/* A breach of the contract of os/os.h, for arena_complaint. */
void inside_commit_unreserved(void);

#ifdef __cplusplus
}
#endif
