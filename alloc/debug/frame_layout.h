/* frame_layout.h: where a frame's parts lie, and what each must hold: for debug/frame.c, the quarantine and the
 * reports. Not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/frame.h"
#include "debug/lookup.h"

enum {
    FRAME_FRONT_BYTES = 16, /* word and check */
    FRAME_REAR_BYTES = 16,  /* at least: 8 of the canary, and the copy */
    FRAME_FILL_MAX = 4096,  /* of the canary and of the fill before an aligned block: what is looked at */
    FRAME_FILL = 0xca,
    FRAME_JUNK = 0xde,      /* in a block that is free */
};

/* Of 6 bits, which the check does not cover: so far apart that no slip makes one the other. */
enum frame_state { FRAME_LIVE = 0x15, FRAME_FREED = 0x2a };

/* What a frame says. */
struct frame_word {
    size_t size_bytes;
    size_t align_bytes; /* 0: none was asked for */
    enum frame_family family;
    enum frame_state state;
};

/* A block in its frame. */
struct framed {
    char *start; /* of the heap's block */
    size_t bytes;
    char *user; /* of the program's */
    struct frame_word word;
};

/* Writes the frame. */
void frame_write(const struct framed *framed);

/* What stands at pointer, where an intact frame does: true. */
bool frame_read(const struct lookup *at, const void *pointer, struct framed *framed);

/* The same by the copy at the block's end, wherever pointer is in the block: true where that makes sense. */
bool frame_read_copy(const struct lookup *at, struct framed *framed);

/* The same, and also whether it is live or freed, reading only what can be read: fit for a signal handler. */
bool frame_peek(char *start, size_t bytes, struct framed *framed);

/* The offset from framed->user of the first byte before it, or after it, that is not what frame_write wrote.
 * True: there is one. */
bool frame_changed_before(const struct framed *framed, ptrdiff_t *offset);
bool frame_changed_after(const struct framed *framed, ptrdiff_t *offset);

/* How many bytes are not what they should be in the part of the frame that holds the byte at offset: the fill before
 * the block, the block's junk where is_freed, or the canary behind it. 0 in the word, the check and the copy. */
uint64_t frame_changed_count(const struct framed *framed, ptrdiff_t offset, bool is_freed);

/* The first of size bytes that is not `byte`; size where all are. */
size_t frame_first_other(const char *start, size_t size, unsigned char byte);

/* From one state to the next, against other threads that do so: false where the state was another. */
bool frame_state_change(const struct framed *framed, enum frame_state from, enum frame_state to);
