/* inside.c: see inside.h. */
#include "explore/inside/inside.h"

#include "base/config.h"
#include "cache/fork.h"
#include "cache/tcache.h"
#include "cache/thread.h"
#include "debug/describe.h"
#include "explore/inside/arena.h"
#include "heap/own_inside.h"
#include "os/os.h"
#include "report/settings.h"
#include "superslab/pagemap.h"

/* The page map takes memory for itself, a GiB at a time, and never returns it. So make it take now all that it will
 * need. */
static bool pagemap_ready(void)
{
    char *all = pagemap_reserve((size_t)1 << 30, SUPERSLAB_BYTES);
    for (size_t gib = 1; all != NULL && gib < ARENA_GIB - 1; gib++) {
        char *more = pagemap_reserve((size_t)1 << 30, SUPERSLAB_BYTES);
        if (more != all + (gib << 30)) return false;
    }
    return all != NULL && os->release(all, (size_t)(ARENA_GIB - 1) << 30) == 0;
}

bool inside_begin(int failfast_level)
{
    if (VALIDATE) {
        failfast_level_read = failfast_level;
        failfast_goes_on_read = 0; /* else the first question reads the environment, and the level with it */
    }
    return arena_begin() && thread_process_start() && pagemap_ready();
}

void inside_thread_end(void)
{
    struct tcache *self = tcache_self();
    /* A thread that never reached a slow path has no key value, so no destructor runs. */
    if (self->state == THREAD_LIVE) thread_end(self);
}

const void *inside_heap(void)
{
    return tcache_self()->heap;
}

void inside_fork_child(void)
{
    fork_child();
}

const void *inside_lookup(const void *address)
{
    struct describe_place place;
    if (!describe_address((uint64_t)(uintptr_t)address, &place)) return NULL;
    return (const void *)(uintptr_t)place.block_start;
}
