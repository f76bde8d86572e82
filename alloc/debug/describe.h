/* describe.h: tells what the heap knows of an address, for crash reports: the block that lookup.h finds, its state, and
 * what its slab's lists say.
 *
 * Async-signal-safe, on any thread, at any moment: nothing here takes a lock, allocates or waits, and nothing trusts
 * the data that it reads. The page map can be read everywhere, descriptors are never unmapped, and everything else is
 * read through os_peek. While other threads change the heap, an answer may be out of date, but nothing here faults.
 * Every walk has a bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hakmem/record.h"

/* The numbers of a place; RECORD_PLACE in hakmem/record.h says what each means. */
struct describe_place {
#define X(name, text) uint64_t name;
    RECORD_PLACE(X)
#undef X
    uint64_t words[RECORD_WORDS];
};

/* Describes any address. True if it is in memory of the heap; otherwise kind is RECORD_KIND_none. */
bool describe_address(uint64_t address, struct describe_place *place);

/* The same, but for a framed block it describes the heap's whole block, and it does not read the block's first
 * words. */
bool describe_heap_address(uint64_t address, struct describe_place *place);

enum { DESCRIBE_COPIES_MAX = 8 };

/* A bad link in the calling thread's bins, or the list for which broken() has ended the process. */
struct describe_suspect {
    const void *word; /* the address of the link */
    uint64_t value; /* the link */
    uint32_t class_index;
    const char *text;
    /* Blocks of the class whose first word is the same link. A bad head of a list was the link of a block that malloc
     * has handed out since. That block is one of these, unless the program has written to it. */
    const void *copies[DESCRIBE_COPIES_MAX];
    uint32_t copy_count;
};

/* Finds what broken() was called with (once; a second call does not find it again), or else the first bad link, in the
 * order of the classes. False if every list is sound. */
bool describe_bad_link(struct describe_suspect *suspect);
