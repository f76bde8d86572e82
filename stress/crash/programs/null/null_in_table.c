/* null_in_table.c: a command is removed from the global table of handlers while messages for it are still queued. */
// expect: library=both cause=null_stored,bad_function_pointer grade=found
// build: stripped
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

PLAINLY static void disable(unsigned command)
{
    handlers[command] = NULL; /* guilty */
}

PLAINLY static int dispatch(unsigned command, int value)
{
    return handlers[command % COMMANDS](value) + 1;
}

int main(void)
{
    earlier_owners(64);
    for (unsigned i = 0; i < COMMANDS; i++) enable(i, add_one);
    int before = dispatch(5, 1);
    disable(3);
    disable(5);
    enable(3, add_one);
    return dispatch(3, 1) + dispatch(5, 1) == before ? 4 : 5;
}
