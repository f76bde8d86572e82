/* describe.h: what the heap knows of an address, for reports of crashes.
 *
 * Fit for a signal handler, on any thread, at any moment: nothing here takes a lock or allocates, waits for anybody,
 * or trusts what it reads. The page map can be read everywhere, descriptors are never unmapped, and all else is read
 * through os_peek. While other threads change the heap an answer may be out of date; it is never a fault. Every
 * walk has a bound. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hakmem/record.h"

/* The numbers of a place: record.h says what each is. */
struct describe_place {
#define X(name, text) uint64_t name;
    RECORD_PLACE(X)
#undef X
    uint64_t words[RECORD_WORDS];
};

/* Any address whatever. Returns true where it is in memory of the heap; else kind is RECORD_KIND_none. */
bool describe_address(uint64_t address, struct describe_place *place);

/* The same, of the heap's block where it is framed, and without the block's first words. */
bool describe_heap_address(uint64_t address, struct describe_place *place);

enum { DESCRIBE_COPIES_MAX = 8 };

/* A link of the calling thread's bins that leads where it must not; or what broken() has ended the process for. */
struct describe_suspect {
    const void *word;    /* where it stands */
    uint64_t value;      /* the link */
    uint32_t class_index;
    const char *text;
    /* Blocks of the class whose first word is that link too. Where the word is the head of the list, it came from
     * a block that malloc has given out since, and that is one of these unless the program has written to it. */
    const void *copies[DESCRIBE_COPIES_MAX];
    uint32_t copy_count;
};

/* What broken() was called with, and that only once; else the first bad link, in order of the classes. False where
 * every list is sound. */
bool describe_bad_link(struct describe_suspect *suspect);
