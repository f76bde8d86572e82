/* failfast.h: the kinds of misuse and corruption that the debug-validation build stops at. The
 * release build has none of this: not the checks, not the names. */
#pragma once

#include <stdbool.h>

#include "base/policy.h"

/* X(name, text): text says what was found, for the report's first line. ci/lint/catalogue holds that each has a
 * check in alloc/, a program in stress/misuse/ and a row in README.md. */
#define FAILFAST_KINDS(X)                                                                          \
    X(double_free, "double free: the block is not live")                                           \
    X(realloc_freed, "realloc of a block that has been freed")                                     \
    X(interior_pointer, "free of a pointer into a block, not to its start")                        \
    X(misaligned_pointer, "free of a misaligned pointer")                                          \
    X(stack_pointer, "free of a pointer into the stack")                                           \
    X(static_pointer, "free of a pointer into a module's static data")                             \
    X(unmapped_pointer, "free of a block whose memory has gone back to the system")                \
    X(foreign_pointer, "free of a pointer that did not come from this allocator")                  \
    X(never_returned, "free of a block that was never handed out")                                 \
    X(mismatched_delete, "the block was allocated by one family of calls and freed by another")    \
    X(wrong_size, "sized free with another size than the block was allocated with")                \
    X(wrong_aligned_size, "sized free of an aligned block with another size than it was allocated with") \
    X(wrong_alignment, "free with another alignment than the block was allocated with")            \
    X(size_overflow, "a size that no block can have: it wraps, or is above PTRDIFF_MAX")           \
    X(write_before, "the bytes before a block were overwritten")                                   \
    X(write_after, "the bytes after a block were overwritten")                                     \
    X(write_after_free, "a freed block was written to")                                            \
    X(head_alignment, "the head of a free list is misaligned: the list was overwritten")           \
    X(next_link_range, "a free block's link leaves its class: the block was written after free")   \
    X(remote_link, "a link among blocks freed by other threads was overwritten")                   \
    X(handed_out_twice, "a block was about to be handed out while it is live")                     \
    X(heap_not_held, "a kernel thread uses the heap of another one")                               \
    X(law, "the heap's own books do not balance")

enum failfast_kind {
#define X(name, text) FAILFAST_##name,
    FAILFAST_KINDS(X)
#undef X
};

/* Writes one readable report to standard error and aborts, whatever HAKMEM_FAILFAST says: what was found leaves
 * the heap in no state to go on. Async-signal-safe; allocates nothing. */
HAK_NORETURN void failfast(enum failfast_kind kind, const void *address, const char *detail);

/* As failfast where HAKMEM_FAILFAST=abort. Else returns false, after the report: the caller does nothing with
 * the address, and goes on. */
bool failfast_refused(enum failfast_kind kind, const void *address, const char *detail);

/* What the layers above know of an address, added to each report in lines of their own. NULL: nothing. */
struct text;
typedef void failfast_explain_fn(struct text *text, enum failfast_kind kind, const void *address);
extern HAK_HIDDEN failfast_explain_fn *failfast_explain;
