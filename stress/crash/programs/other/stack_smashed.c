/* stack_smashed.c: a name is longer than its buffer on the stack; the compiler's guard finds it when the function
 * returns. */
// expect: library=both cause=stack_smashed grade=likely
// build: -fstack-protector-all
#include "../program.h"

PLAINLY static void put_name(char *to, const char *name)
{
    while (*name != 0) *to++ = *name++; /* guilty */
    *to = 0;
}

PLAINLY static size_t greet(const char *name)
{
    char room[24] = "dear "; /* also guilty function */
    put_name(room + 5, name);
    return strlen(room);
}

int main(void)
{
    earlier_owners(64);
    char *name = copy_text("the reader of a rather long name");
    size_t before = greet("you");
    return greet(name) == before ? 4 : 5;
}
