/* scenarios.h: scenarios on the inside of libhakmem, of a few steps each. They make the orders of alloc/ visible that the public
 * functions cover: by a data race, or by a law that does not hold at the end. scenarios.c has the table, ci/orders uses it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order/malloc/inside.h"

#define SCENARIO_NAMES(X)                                                                                 \
    X(pages, "pages that one thread frees and another claims")                                            \
    X(pages_at, "pages that one thread frees and another claims by their place")                          \
    X(kept, "a kept run, beside the thread that gives back all of them")                                  \
    X(kept_take, "a kept run that another thread takes")                                                  \
    X(index, "free pages that every search finds, beside a thread that lowers the index")                 \
    X(search, "free pages that every search finds, beside a thread that looks for pages")                 \
    X(absent, "a descriptor that every search finds, beside a thread that lowers the index")              \
    X(reuse, "a descriptor that is released, and taken again")                                            \
    X(renew, "a new superslab that every search finds, beside a thread that lowers the index")            \
    X(fresh, "a new superslab that another thread finds")                                                 \
    X(walk, "a new superslab, in a new chunk, beside a walk over all")                                    \
    X(walk_below, "a new superslab beside a walk from the top")                                           \
    X(huge, "the descriptor of a huge block that another thread looks up")                                \
    X(descriptor, "the descriptor of a superslab that another thread looks up")                           \
    X(part, "the descriptor of a superslab of which the system gave a part, looked up by another thread") \
    X(owner_table, "an owner, in a table that has doubled")                                               \
    X(orphan, "a slab that is posted while its owner becomes an orphan")                                  \
    X(adopt, "an orphan that another thread adopts")                                                      \
    X(adopt_this, "a certain orphan that another thread adopts")                                          \
    X(word, "blocks that are posted while their owner drains")                                            \
    X(own_post, "a block of the program's own heap, freed while another thread has the heap")             \
    X(own_list, "a new heap of the program's own, beside a walk over all")                                \
    X(lock, "what a lock protects")                                                                       \
    X(lock_word, "what a lock in an object protects")                                                     \
    X(begin, "the first calls of the process")                                                            \
    X(visit, "a heap that another thread visits")                                                         \
    X(watch, "what a watch uses")                                                                         \
    X(crash, "what the writer of crash records has")                                                      \
    X(sampling, "what a thread samples with that begins while sampling does")                             \
    X(profile, "a block that is freed while the profile begins")                                          \
    X(sampler, "a heap that samples, while the profile begins")                                           \
    X(starts, "two threads that begin the profile")                                                       \
    X(parked, "lists that a heap has parked while it samples, taken by a visitor")                        \
    X(sites, "a call stack of the profile, beside a walk over all")                                       \
    X(modules, "files of code, beside the first look at them")                                            \
    X(places, "a file of code that two threads look for")

/* Only in the debug-validation library. */
#define SCENARIO_NAMES_CHECKED(X)                                                            \
    X(ring, "blocks that wait after free, beside a thread that asks for them")               \
    X(ring_empty, "blocks that wait after free, beside a thread that frees all of them")     \
    X(ring_finish, "blocks that wait after free when the process ends")                      \
    X(sealed, "a large block that waits after free, beside a thread that frees all of them") \
    X(sealed_find, "a large block that waits after free, and a thread that uses it")         \
    X(sealed_open, "the same, and another thread that uses it too")

#define X(name, hunts)                     \
    void scenario_##name(unsigned thread); \
    void scenario_##name##_begin(void);    \
    const char *scenario_##name##_law(void);
SCENARIO_NAMES(X)
SCENARIO_NAMES_CHECKED(X)
#undef X

/* For those that need none. */
#define SCENARIO_BEGIN_NONE(name) \
    void scenario_##name##_begin(void) {}
#define SCENARIO_LAW_NONE(name)             \
    const char *scenario_##name##_law(void) \
    {                                       \
        return NULL;                        \
    }
