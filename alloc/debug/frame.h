/* frame.h: at level 2 and above (report/settings.h) every block that goes to the program lies in a frame:
 *
 *   block of the heap   | fill ... | word | check | size bytes, the program's | canary ... | copy |
 *                                                 ^ aligned as asked for
 *
 * The word holds the size asked for, the family of calls that allocated the block, and the alignment. The check is a
 * hash of the word and the address. The copy of the word, in the last 8 bytes of the heap's block, lets a report tell
 * what was overwritten. Up to FRAME_FILL_MAX bytes on each side of the program's block are filled with one pattern.
 * free and realloc check all of it.
 *
 * The heap below knows nothing of frames. Either every block of a process has a frame or none has. Not a part of the
 * release library: every call is guarded by `if (VALIDATE && frames_on())`. Any thread. Errors as in hakmem.h. C++
 * includes this header too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/failfast.h"

struct framed;
struct hak_heap;

enum frame_family { FAMILY_MALLOC, FAMILY_NEW, FAMILY_NEW_ARRAY };

bool frames_on(void);

/* Whether the calling thread is in a call of those below: true only for a handler of a signal that came within one. The frame
 * of one block may be half written then. */
bool frame_is_changing(void);

/* Whether a block can have count * size_bytes bytes. If not, sets ENOMEM, and at level 3 reports it. */
bool frame_size_fits(size_t count, size_t size_bytes);

/* As the heap's functions, with a frame. align_bytes is a power of two, or 0 if the call names none; zero: clear the
 * block, as calloc does. */
void *frame_alloc(enum frame_family family, size_t align_bytes, size_t size_bytes, bool zero);
void *frame_realloc(void *pointer, size_t size_bytes);

/* The same in a heap of the program's own; NULL: the heap of all. frame_realloc_in: a block of another heap moves to this
 * one. */
void *frame_alloc_in(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zero);
void *frame_realloc_in(struct hak_heap *heap, void *pointer, size_t size_bytes);
size_t frame_usable_size(const void *pointer);

/* What a call of free or delete claims about the block. */
struct frame_said {
    enum frame_family family;
    bool has_size, has_align;
    size_t size_bytes, align_bytes;
};
void frame_free(void *pointer, struct frame_said said);

/* Reports that bytes before or behind a block were overwritten, the first one at this offset from the program's part. As
 * failfast_refused. */
bool frame_refuse_changed(enum failfast_kind kind, const struct framed *framed, ptrdiff_t offset);

/* The same for any bytes of the block; count as in failfast_bytes. */
bool frame_refuse_bytes(enum failfast_kind kind, const struct framed *framed, ptrdiff_t offset, uint64_t count);
