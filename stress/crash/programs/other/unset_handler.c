/* unset_handler.c: a command for which the table never had a handler. No store is at fault, but the call. */
// expect: library=both cause=bad_function_pointer,uninitialised,never_set grade=likely
#include "../program.h"

enum { COMMANDS = 8 };

typedef int handler_fn(int);

static handler_fn *handlers[COMMANDS];

static int add_one(int value)
{
    return value + 1;
}

PLAINLY static void enable(unsigned command, handler_fn *handler)
{
    handlers[command] = handler;
}

PLAINLY static int dispatch(unsigned command, int value)
{
    return handlers[command % COMMANDS](value) + 1; /* guilty */
}

int main(void)
{
    earlier_owners(64);
    for (unsigned i = 0; i < COMMANDS - 1; i++) enable(i, add_one); /* also guilty */
    int before = dispatch(5, 1);
    return dispatch(7, 1) == before ? 4 : 5;
}
