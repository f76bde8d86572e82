/* failfast.c: the report of a failed check. Not a part of the release library. */
#include "report/failfast.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

static const char *const names[] = {
#define X(name, text) #name,
    FAILFAST_KINDS(X)
#undef X
};

static const char *const texts[] = {
#define X(name, text) text,
    FAILFAST_KINDS(X)
#undef X
};

struct text {
    char bytes[512];
    size_t length;
};

static void add(struct text *text, const char *more)
{
    size_t length = strlen(more);
    size_t room = sizeof text->bytes - text->length;
    if (length > room) length = room;
    memcpy(text->bytes + text->length, more, length);
    text->length += length;
}

static void add_address(struct text *text, const void *address)
{
    char digits[2 + 16 + 1] = "0x";
    char *digit = digits + 2;
    for (int shift = 60; shift >= 0; shift -= 4)
        *digit++ = "0123456789abcdef"[(uintptr_t)address >> shift & 15];
    *digit = '\0';
    add(text, digits);
}

_Noreturn void failfast(enum failfast_kind kind, const void *address, const char *detail)
{
    struct text text = {.length = 0};
    add(&text, "hakmem: failfast: ");
    add(&text, names[kind]);
    add(&text, ": ");
    add(&text, texts[kind]);
    add(&text, "\nhakmem:   address ");
    add_address(&text, address);
    if (detail != NULL) {
        add(&text, "\nhakmem:   ");
        add(&text, detail);
    }
    add(&text, "\n");
    os_write_error(text.bytes, text.length);
    abort();
}
