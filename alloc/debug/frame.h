/* frame.h: at level 2 and above (report/settings.h) every block that goes to the program stands in a frame:
 *
 *   block of the heap   | fill ... | word | check | size bytes, the program's | canary ... | copy |
 *                                                 ^ aligned as asked for
 *
 * The word says the size asked for, by which family of calls, and the alignment; the check is a hash of it and of
 * the address; the copy, in the last 8 bytes of the heap's block, lets a report say what has been overwritten.
 * What lies between is filled with one pattern, up to FRAME_FILL_MAX bytes on each side. Free and realloc look
 * at all of it.
 *
 * The heap underneath is as it is without. Frames are for the whole life of a process or not at all. Not a
 * part of the release library: every call stands behind `if (VALIDATE && frames_on())`. Any thread. Errors are
 * those of the functions of hakmem.h. Also included by C++. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_family { FAMILY_MALLOC, FAMILY_NEW, FAMILY_NEW_ARRAY };

bool frames_on(void);

/* Whether count * size_bytes is a size that a block can have. If not, sets ENOMEM; at level 3 that is a find. */
bool frame_size_fits(size_t count, size_t size_bytes);

/* align_bytes: a power of two, or 0 where the call names none. zero: as calloc. */
void *frame_alloc(enum frame_family family, size_t align_bytes, size_t size_bytes, bool zero);
void *frame_realloc(void *pointer, size_t size_bytes);
size_t frame_usable_size(const void *pointer);

/* What a free says of the block. */
struct frame_said {
    enum frame_family family;
    bool has_size, has_align;
    size_t size_bytes, align_bytes;
};
void frame_free(void *pointer, struct frame_said said);
