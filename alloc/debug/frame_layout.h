/* frame_layout.h: where the parts of a frame lie and what each must hold. For debug/frame.c, the quarantine and the
 * reports. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/frame.h"
#include "debug/lookup.h"

enum {
    FRAME_FRONT_BYTES = 16, /* word and check */
    FRAME_REAR_BYTES = 16,  /* at least: 8 bytes of canary, and the copy */
    FRAME_FILL_MAX = 4096,  /* the most that is checked of the canary, and of the fill before an aligned block */
    FRAME_FILL = 0xca,
    FRAME_JUNK = 0xde,      /* the content of a freed block */
};

/* States have 6 bits, which the check does not cover. All 6 differ, so that no small error turns one state into the
 * other. */
enum frame_state { FRAME_LIVE = 0x15, FRAME_FREED = 0x2a, FRAME_SEEN = 0x33 /* live; see leaks.c */ };

/* The content of a frame's word. */
struct frame_word {
    size_t size_bytes;
    size_t align_bytes; /* 0: the call named none */
    enum frame_family family;
    enum frame_state state;
};

/* A block in its frame. */
struct framed {
    char *start; /* start of the heap's block */
    size_t bytes;
    char *user; /* start of the program's block */
    struct frame_word word;
};

/* Writes the whole frame. */
void frame_write(const struct framed *framed);

/* Reads the frame of the block that starts at pointer. True if the frame is intact. */
bool frame_read(const struct lookup *at, const void *pointer, struct framed *framed);

/* The same by the copy at the end of the heap's block, which needs no pointer to the program's block. True if the copy
 * makes sense. */
bool frame_read_copy(const struct lookup *at, struct framed *framed);

/* The same, and also whether the block is live or freed. Reads only memory that can be read: async-signal-safe. */
bool frame_peek(char *start, size_t bytes, struct framed *framed);

/* Whether a byte of the frame before the program's block, or after it, differs from what frame_write wrote; *offset is
 * that of the first one, from framed->user. */
bool frame_changed_before(const struct framed *framed, ptrdiff_t *offset);
bool frame_changed_after(const struct framed *framed, ptrdiff_t *offset);

/* How many bytes are wrong in the part that holds the byte at offset: the fill before the block, the block's junk if
 * is_freed, or the canary behind it. 0 for the word, the check and the copy. */
uint64_t frame_changed_count(const struct framed *framed, ptrdiff_t offset, bool is_freed);

/* The index of the first of size bytes that is not `byte`; size if all are. */
size_t frame_first_other(const char *start, size_t size, unsigned char byte);

/* Changes the state from one value to another, atomically. False if the state was not `from`. */
bool frame_state_change(const struct framed *framed, enum frame_state from, enum frame_state to);
