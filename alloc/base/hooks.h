/* hooks.h: the calls from the layers that serve memory up to those that watch it, debug and crash. The lower layers do
 * not include the upper ones; they call through this table.
 *
 * debug/hooks.c defines the table. All but the last three entries are constants, so plain reads suffice. Those that
 * depend on the build are NULL in a build that lacks them, and the caller asks `if (VALIDATE)` or `if (ASAN)` first. The last three entries are set
 * while the program runs, atomically; NULL means that nothing watches. Only slow paths read the table. */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"

struct text;
struct slab;
struct failfast_find;

/* Adds to a report, and to the find, what is known of the address. The report so far ends in "found by thread ",
 * so the function first completes that line. One thread at a time. kind is an enum failfast_kind. */
typedef void failfast_explain_fn(struct text *text, uint32_t kind, struct failfast_find *find);

/* Called with true when a thread has begun and holds a heap, and with false when it ends. Not called in threads whose
 * end the allocator cannot learn of. The function must not call the allocator. */
typedef void thread_watch_fn(bool begins);

/* Called with true when a thread has just taken a heap, and with false before the lists of its bins go elsewhere. */
typedef void cache_watch_fn(void *tcache, bool begins);

struct hooks {
    /* In every build, for cache/fork.c, so that one handler of fork serves all layers. In the child: */
    void (*own_after_fork)(void); /* marks heaps of the program's own that another thread was changing */
    void (*background_after_fork)(void); /* the library's thread is gone */
    void (*background_end_with_first)(void); /* a thread ends: if it is the first, the library's ends too */
    void (*stats_write_due)(void); /* in every build: a slow path writes the files that are due */
    /* Under VALIDATE. */
    void (*heap_tick)(void); /* a thread is on a slow path of malloc or free */
    void (*thread_before_end)(void); /* a thread ends, and has its heap still */
    void (*thread_after_fork)(void); /* in the child, when the heaps are mended */
    void (*blocks_discarded)(struct slab *slab); /* a slab or run goes back with the blocks in it */
    void (*block_discarded)(char *start); /* a huge block does */
    bool (*fault_is_told)(const siginfo_t *info, const void *signal_context); /* for the handler of SIGSEGV */
    void (*fault_stop)(void); /* another handler takes the place of its own */
    /* Under ASAN: an error at this address is about to be reported. */
    void (*sanitizer_report)(const void *address);

    /* Set once, by explain_start, to a constant: relaxed. */
    failfast_explain_fn *failfast_explain;
    /* Set by thread_watch. */
    _Atomic(thread_watch_fn *) thread_watch;
    /* Set when blocks are sampled first. */
    _Atomic(cache_watch_fn *) cache_watch;
};
extern HAK_HIDDEN struct hooks hooks;
