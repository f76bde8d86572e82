/* failfast.h: the kinds of misuse and corruption that the debug-validation build stops at. The
 * release build has none of this: not the checks, not the names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"

/* X(name, text): text says what was found, for the report's first line. ci/lint/catalogue holds that each has a
 * check in alloc/, a program in stress/misuse/ and a row in docs/debug.md. */
#define FAILFAST_KINDS(X)                                                                                \
    X(double_free, "double free: the block is not live")                                                 \
    X(realloc_freed, "realloc of a block that has been freed")                                           \
    X(interior_pointer, "free of a pointer into a block, not to its start")                              \
    X(misaligned_pointer, "free of a misaligned pointer")                                                \
    X(stack_pointer, "free of a pointer into the stack")                                                 \
    X(static_pointer, "free of a pointer into a module's static data")                                   \
    X(unmapped_pointer, "free of a block whose memory has gone back to the system")                      \
    X(foreign_pointer, "free of a pointer that did not come from this allocator")                        \
    X(never_returned, "free of a block that was never handed out")                                       \
    X(mismatched_delete, "the block was allocated by one family of calls and freed by another")          \
    X(wrong_size, "sized free with another size than the block was allocated with")                      \
    X(wrong_aligned_size, "sized free of an aligned block with another size than it was allocated with") \
    X(wrong_alignment, "free with another alignment than the block was allocated with")                  \
    X(size_overflow, "a size that no block can have: it wraps, or is above PTRDIFF_MAX")                 \
    X(write_before, "the bytes before a block were overwritten")                                         \
    X(write_after, "the bytes after a block were overwritten")                                           \
    X(write_after_free, "a freed block was written to")                                                  \
    X(head_alignment, "the head of a free list is misaligned: the list was overwritten")                 \
    X(next_link_range, "a free block's link leaves its class: the block was written after free")         \
    X(remote_link, "a link among blocks freed by other threads was overwritten")                         \
    X(handed_out_twice, "a block was about to be handed out while it is live")                           \
    X(heap_not_held, "a kernel thread uses the heap of another one")                                     \
    X(law, "the heap's own books do not balance")

enum failfast_kind {
#define X(name, text) FAILFAST_##name,
    FAILFAST_KINDS(X)
#undef X
};

enum { FAILFAST_FRAMES = 8, FAILFAST_REPORT_BYTES = 8192 };

/* Who allocated or freed a block, and from where: return addresses, the innermost first. */
struct failfast_event {
    uint32_t thread, count; /* thread 0: not known */
    uintptr_t frames[FAILFAST_FRAMES];
};

/* What a check has found. The numbers are those of the field "failfast" of a crash record (hakmem/record.h). */
struct failfast_find {
    const char *name, *text; /* of the kind */
    const char *call;        /* that found it, as failfast_call_set was told; "": another */
    const void *address;
    const void *bad_address; /* the first byte that was overwritten, or the link; NULL: none is known */
    uint64_t bad_bytes;      /* how many were; 0: not counted */
    uint64_t value;          /* the aligned 8 bytes around bad_address */
    /* What the hook failfast_explain fills in; all 0 where it does not know. */
    const void *block_start;
    size_t block_bytes;
    uint32_t kind, state, class_index;
    struct failfast_event allocated, freed;
};

/* What was overwritten: where that begins, and how much of it was counted. */
struct failfast_bytes {
    const void *first;
    uint64_t count; /* 0: not counted */
};

/* Writes one readable report to standard error and aborts, whatever HAKMEM_FAILFAST says: what was found leaves
 * the heap in no state to go on. Async-signal-safe; allocates nothing. */
HAK_NORETURN void failfast(enum failfast_kind kind, const void *address, const char *detail);

/* The same, of a link that is wrong and stands at link. */
HAK_NORETURN void failfast_link(enum failfast_kind kind, const void *address, const char *detail, const void *link);

/* As failfast where HAKMEM_FAILFAST=abort. Else returns false, after the report: the caller does nothing with
 * the address, and goes on. */
bool failfast_refused(enum failfast_kind kind, const void *address, const char *detail);

/* The same, of bytes that were overwritten. */
bool failfast_refused_bytes(enum failfast_kind kind, const void *address, const char *detail,
                            struct failfast_bytes bytes);

/* --- for the crash record ------------------------------------------------------------------------------------ */

/* Which call of the program's the checks run for, in this thread. Returns what was set before, for the end of the
 * call: calls nest, since free may look at what waits in the quarantine. */
const char *failfast_call_set(const char *call);

/* What ended this thread: set by the failfast whose abort() the caller is handling, until failfast_kept_forget. NULL:
 * no failfast did. The report is report_bytes long. */
const struct failfast_find *failfast_kept(const char **report, size_t *report_bytes);

/* If the program survives the abort, a later one of this thread is not to be taken for that one. */
void failfast_kept_forget(void);
