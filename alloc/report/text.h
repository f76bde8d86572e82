/* text.h: builds a report in the caller's buffer, without stdio and without allocating. Text that does not fit is cut
 * off. Buffers on the stack should be small: a thread may have little stack. Async-signal-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes;
    size_t size; /* of the buffer */
    size_t length;
};

/* Each adds at the end: a string; the first `bytes` bytes of one. */
void text_add(struct text *text, const char *more);
void text_add_bytes(struct text *text, const char *more, size_t bytes);

/* Adds what the format says, as printf: %s, %d, %u and %x, of any length (l, z), %p for an address as 0x and 16 digits, and %%.
 * # puts 0x before %x. */
__attribute__((format(printf, 2, 3))) void text_print(struct text *text, const char *format, ...);

/* Adds an errno value as "ENOSPC (No space left on device)". Does not use the locale, which could allocate. */
void text_add_error(struct text *text, int error);

/* Adds a word, quoted where needed so that a shell takes it as one word. */
void text_add_word(struct text *text, const char *word);

/* Makes a string of size bytes at most, its zero byte included, of what the format says. Returns bytes. */
__attribute__((format(printf, 3, 4))) const char *text_string(char *bytes, size_t size, const char *format, ...);

/* Reads decimal digits from *at on, and moves it behind them. False: there are none, or their number does not fit. */
bool text_digits(const char **at, uint64_t *value);
