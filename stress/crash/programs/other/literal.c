/* literal.c: a name is capitalised in place; one of the names is a literal. */
// expect: library=both cause=read_only,wild_write,bad_value_stored grade=likely
#include "../program.h"

struct user {
    char *name;
    char rest[72];
};

PLAINLY static void user_name(struct user *user, char *name)
{
    user->name = name; /* also guilty */
}

PLAINLY static void user_capital(const struct user *user)
{
    user->name[0] = 'N'; /* guilty */
}

int main(void)
{
    static const char literal[] = "nobody";
    earlier_owners(sizeof(struct user));
    struct user *user = (struct user *)need(calloc(1, sizeof *user));
    user_name(user, copy_text("name"));
    user_capital(user);
    user_name(user, (char *)(uintptr_t)literal);
    user_capital(user);
    return 4;
}
