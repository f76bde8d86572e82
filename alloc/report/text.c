/* text.c: see text.h. */
#include "report/text.h"

#include <stdarg.h>
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

static void add_signed(struct text *text, int64_t number)
{
    if (number < 0) text_add(text, "-");
    add_digits(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10, 1);
}

static void print(struct text *text, const char *format, va_list *arguments)
{
    for (const char *at; (at = strchr(format, '%')) != NULL; format = at + 1) {
        text_add_bytes(text, format, (size_t)(at - format));
        const bool has_prefix = at[1] == '#';
        at += has_prefix ? 2 : 1;
        const bool is_long = *at == 'l' || *at == 'z';
        if (is_long) at++;
        if (has_prefix || *at == 'p') text_add(text, "0x");
        if (*at == '%') text_add(text, "%");
        else if (*at == 's') text_add(text, va_arg(*arguments, const char *));
        else if (*at == 'p') add_digits(text, (uintptr_t)va_arg(*arguments, const void *), 16, 16);
        else if (*at == 'd') add_signed(text, is_long ? va_arg(*arguments, long) : va_arg(*arguments, int));
        else
            add_digits(text, is_long ? va_arg(*arguments, unsigned long) : va_arg(*arguments, unsigned),
                       *at == 'x' ? 16 : 10, 1);
    }
    text_add(text, format);
}

void text_print(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(text, format, &arguments);
    va_end(arguments);
}

const char *text_string(char *bytes, size_t size, const char *format, ...)
{
    struct text text = {.bytes = bytes, .size = size - 1};
    va_list arguments;
    va_start(arguments, format);
    print(&text, format, &arguments);
    va_end(arguments);
    bytes[text.length] = '\0';
    return bytes;
}

void text_add_error(struct text *text, int error)
{
    const char *name = os_error_name(error), *what = os_error_text(error);
    if (name != NULL) text_add(text, name);
    else text_print(text, "error %d", error);
    if (what != NULL) text_print(text, " (%s)", what);
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

bool text_digits(const char **at, uint64_t *value)
{
    if (**at < '0' || **at > '9') return false;
    for (*value = 0; **at >= '0' && **at <= '9'; ++*at)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
            return false;
    return true;
}
