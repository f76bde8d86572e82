/* text.h: builds a report in a buffer of the caller's, without stdio and without allocating. What does not
 * fit is cut off. Buffers on the stack are small: threads may have little of it. Async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes;
    size_t size; /* of the buffer */
    size_t length;
};

/* Each adds at the end: a string; its first `bytes` bytes; 0x and 16 digits; a decimal number; one with a sign. */
void text_add(struct text *text, const char *more);
void text_add_bytes(struct text *text, const char *more, size_t bytes);
void text_add_address(struct text *text, const void *address);
void text_add_number(struct text *text, uint64_t number);
void text_add_signed(struct text *text, int64_t number);

/* 0x and as many digits as it has. */
void text_add_hex(struct text *text, uint64_t number);

/* As a shell takes it for one word. */
void text_add_word(struct text *text, const char *word);
