/* fortified.c: a name is longer than its buffer; the C library checks for that, and ends the program. */
// expect: library=both cause=overflow,abort,stack_smashed grade=found
// build: -O2 -fbuiltin -D_FORTIFY_SOURCE=2
#include "../program.h"

struct user {
    uint64_t number;
    char name[16];
};

static struct user user;

PLAINLY static void set_name(const char *name)
{
    strcpy(user.name, name); /* guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct user));
    char *name = copy_text("a name that is longer than sixteen letters");
    set_name("short");
    set_name(name);
    return user.name[0] == 'a' ? 4 : 5;
}
