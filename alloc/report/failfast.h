/* failfast.h: the kinds of misuse and corruption that the debug-validation build stops at. The
 * release build has none of this: not the checks, not the names. */
#pragma once

/* X(name, text): text says what was found, for the report's first line. */
#define FAILFAST_KINDS(X)                                                                          \
    X(double_free, "double free: the block is not live")                                           \
    X(interior_pointer, "free of a pointer into a block, not to its start")                        \
    X(misaligned_pointer, "free of a misaligned pointer")                                          \
    X(foreign_pointer, "free of a pointer that did not come from this allocator")                  \
    X(never_returned, "free of a block that was never handed out")                                 \
    X(head_alignment, "the head of a free list is misaligned: the list was overwritten")           \
    X(next_link_range, "a free block's link leaves its class: the block was written after free")   \
    X(handed_out_twice, "a block was about to be handed out while it is live")                     \
    X(law, "the heap's own books do not balance")

enum failfast_kind {
#define X(name, text) FAILFAST_##name,
    FAILFAST_KINDS(X)
#undef X
};

/* Writes one readable report to standard error and aborts. Async-signal-safe; allocates nothing. */
_Noreturn void failfast(enum failfast_kind kind, const void *address, const char *detail);
