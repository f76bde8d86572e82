/* text.h: builds a report in the caller's buffer, without stdio and without allocating. Text that does not fit is cut
 * off. Buffers on the stack should be small: a thread may have little stack. Async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes;
    size_t size; /* of the buffer */
    size_t length;
};

/* Each adds at the end: a string; the first `bytes` bytes of one; an address as 0x and 16 digits; a decimal number; a
 * signed decimal number. */
void text_add(struct text *text, const char *more);
void text_add_bytes(struct text *text, const char *more, size_t bytes);
void text_add_address(struct text *text, const void *address);
void text_add_number(struct text *text, uint64_t number);
void text_add_signed(struct text *text, int64_t number);

/* Adds a number as 0x and as few digits as it needs. */
void text_add_hex(struct text *text, uint64_t number);

/* Adds an errno value as "ENOSPC (No space left on device)". Does not use the locale, which could allocate. */
void text_add_error(struct text *text, int error);

/* Adds a word, quoted where needed so that a shell takes it as one word. */
void text_add_word(struct text *text, const char *word);
