/* wrong_member.c: a value of the kind text gets a number: the wrong member is set, and the kind stays. */
// expect: library=both cause=wild_read,wild_write,bad_value_stored grade=found
// build: -O0
#include "../program.h"

struct value {
    enum { TEXT, NUMBER } kind;
    union {
        const char *text;
        uint64_t number;
    } is;
    char rest[32];
};

PLAINLY static void set_text(struct value *value, const char *text)
{
    value->kind = TEXT;
    value->is.text = text;
}

PLAINLY static void set_number(struct value *value, uint64_t number)
{
    value->is.number = number; /* guilty */
}

PLAINLY static size_t length_of(const struct value *value)
{
    return value->kind == TEXT ? strlen(value->is.text) : 8;
}

int main(void)
{
    earlier_owners(sizeof(struct value));
    struct value *value = (struct value *)need(calloc(1, sizeof *value));
    set_text(value, "eight kB");
    size_t before = length_of(value);
    set_number(value, 0x2a00000000);
    return length_of(value) == before ? 4 : 5;
}
