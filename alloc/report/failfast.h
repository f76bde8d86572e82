/* failfast.h: the kinds of misuse and corruption that the debug-validation build finds, and the reports that end the
 * process. The release build has none of it, neither the checks nor the names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

/* X(name, text): text says what was found, in the report's first line. ci/lint/catalogue checks that each kind has a
 * check in alloc/, a program in stress/misuse/ and a row in docs/debug.md. */
#define FAILFAST_KINDS(X)                                                                                    \
    X(double_free, "double free: the block is not live")                                                     \
    X(realloc_freed, "realloc of a block that has been freed")                                               \
    X(interior_pointer, "free of a pointer into a block, not to its start")                                  \
    X(misaligned_pointer, "free of a misaligned pointer")                                                    \
    X(stack_pointer, "free of a pointer into the stack")                                                     \
    X(static_pointer, "free of a pointer into a module's static data")                                       \
    X(unmapped_pointer, "free of a block whose memory has gone back to the system")                          \
    X(foreign_pointer, "free of a pointer that did not come from this allocator")                            \
    X(never_returned, "free of a block that was never handed out")                                           \
    X(mismatched_delete, "the block was allocated by one family of calls and freed by another")              \
    X(wrong_size, "sized free with another size than the block was allocated with")                          \
    X(wrong_aligned_size, "sized free of an aligned block with another size than it was allocated with")     \
    X(wrong_alignment, "free with another alignment than the block was allocated with")                      \
    X(size_overflow, "a size that no block can have: it wraps, or is above PTRDIFF_MAX")                     \
    X(write_before, "the bytes before a block were overwritten")                                             \
    X(write_after, "the bytes after a block were overwritten")                                               \
    X(write_after_free, "a freed block was written to")                                                      \
    X(use_after_free, "a freed block was used")                                                              \
    X(never_written, "a value was used that was never written")                                              \
    X(leak, "nothing points to a block any more, at the end of the process")                                 \
    X(head_alignment, "the head of a free list is misaligned: the list was overwritten")                     \
    X(next_link_range, "a free block's link leaves its class: the block was written after free")             \
    X(remote_link, "a link among blocks freed by other threads was overwritten")                             \
    X(handed_out_twice, "a block was about to be handed out while it is live")                               \
    X(destroyed_heap, "use of a heap that was destroyed, or of a block that went back with all of its heap") \
    X(heap_not_held, "a kernel thread uses the heap of another one")                                         \
    X(law, "the heap's own books do not balance")

enum failfast_kind {
#define X(name, text) FAILFAST_##name,
    FAILFAST_KINDS(X)
#undef X
};

enum { FAILFAST_FRAMES = 8, FAILFAST_REPORT_BYTES = 8192 };

/* The thread that allocated or freed a block, and its return addresses at that call, the innermost first. */
struct failfast_event {
    uint32_t thread, count; /* thread 0: not known */
    uintptr_t frames[FAILFAST_FRAMES];
};

/* What a check has found. The members mean the same as the numbers of the field "failfast" of a crash record
 * (hakmem/record.h). */
struct failfast_find {
    const char *name, *text; /* of the kind */
    const char *call;        /* the call that found it, as set by failfast_call_set; "": another */
    const void *address;
    const void *bad_address; /* the first byte that was overwritten, or the link; NULL: none is known */
    uint64_t bad_bytes;      /* how many were overwritten; 0: not counted */
    uint64_t value;          /* the aligned 8 bytes around bad_address */
    /* Filled in by the hook failfast_explain; 0 where it does not know. */
    const void *block_start;
    size_t block_bytes;
    uint32_t kind, state, class_index;
    struct failfast_event allocated, freed;
};

/* The bytes that were overwritten: the first one, and how many were counted. */
struct failfast_bytes {
    const void *first;
    uint64_t count; /* 0: not counted */
};

/* Writes one report to standard error and aborts, even with HAKMEM_FAILFAST=report: the heap is too damaged to
 * continue. Async-signal-safe; allocates nothing. */
HAK_NORETURN void failfast(enum failfast_kind kind, const void *address, const char *detail);

/* The same, for a wrong link. link is its address; NULL: not known. */
HAK_NORETURN void failfast_link(enum failfast_kind kind, const void *address, const char *detail, const void *link);

/* With HAKMEM_FAILFAST=abort the same as failfast. With HAKMEM_FAILFAST=report returns false after the report: the
 * caller must not act on the address, and returns to the program. */
bool failfast_refused(enum failfast_kind kind, const void *address, const char *detail);

/* The same, for bytes that were overwritten. */
bool failfast_refused_bytes(enum failfast_kind kind, const void *address, const char *detail,
                            struct failfast_bytes bytes);

/* --- for the crash record ------------------------------------------------------------------------------------ */

/* Sets the name of the program's call that this thread's checks run for. Returns the name that was set before; the
 * caller sets that again at the end of the call, since calls nest: free may check blocks that wait in the
 * quarantine. */
const char *failfast_call_set(const char *call);

/* For the handler of SIGABRT: what the failfast that aborts this thread has found, and its report of report_bytes.
 * NULL: the abort came from elsewhere. Valid until failfast_kept_forget. */
const struct failfast_find *failfast_kept(const char **report, size_t *report_bytes);

/* Forgets that. A program may survive the abort; a later abort of this thread must not be taken for the same one. */
void failfast_kept_forget(void);
