/* text.c: see text.h. */
#include "report/text.h"

#include <string.h>

#include "os/libc.h"

void text_add_bytes(struct text *text, const char *more, size_t bytes)
{
    size_t room = text->size - text->length;
    if (bytes > room) bytes = room;
    memcpy(text->bytes + text->length, more, bytes);
    text->length += bytes;
}

void text_add(struct text *text, const char *more)
{
    text_add_bytes(text, more, strlen(more));
}

static void add_digits(struct text *text, uint64_t number, uint32_t base, uint32_t digits_min)
{
    char digits[20]; /* of the longest decimal number */
    uint32_t count = 0;
    while (number != 0 || count < digits_min) {
        digits[sizeof digits - ++count] = "0123456789abcdef"[number % base];
        number /= base;
    }
    text_add_bytes(text, digits + sizeof digits - count, count);
}

void text_add_address(struct text *text, const void *address)
{
    text_add(text, "0x");
    add_digits(text, (uintptr_t)address, 16, 16);
}

void text_add_hex(struct text *text, uint64_t number)
{
    text_add(text, "0x");
    add_digits(text, number, 16, 1);
}

void text_add_number(struct text *text, uint64_t number)
{
    add_digits(text, number, 10, 1);
}

void text_add_signed(struct text *text, int64_t number)
{
    if (number < 0) text_add(text, "-");
    text_add_number(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void text_add_error(struct text *text, int error)
{
    const char *name = os_error_name(error), *what = os_error_text(error);
    text_add(text, name != NULL ? name : "error ");
    if (name == NULL) text_add_number(text, (uint64_t)error);
    if (what == NULL) return;
    text_add(text, " (");
    text_add(text, what);
    text_add(text, ")");
}

void text_add_word(struct text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    size_t bytes = strlen(word);
    if (bytes > 0 && strspn(word, plain) == bytes) {
        text_add_bytes(text, word, bytes);
        return;
    }
    text_add(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            text_add(text, "'\\''");
        } else {
            text_add_bytes(text, word, 1);
        }
    }
    text_add(text, "'");
}
