/* one_past_end.c: a table of eight names is cleared by a loop that runs nine times. */
// expect: library=release cause=overflow grade=found
#include "heap_program.h"

enum { NAMES = 8 };

struct table {
    uint64_t names[NAMES];
};

PLAINLY static void set_all(struct table *table, uint64_t name)
{
    uint64_t *names = table->names;
    for (int i = 0; i <= NAMES; i++) names[i] = name; /* guilty */
}

int main(void)
{
    struct pair pair = neighbours(sizeof(struct table));
    free(pair.high);
    set_all((struct table *)(void *)pair.low, 0x6e6f6e616d65);
    allocate_some(sizeof(struct table));
    return 4;
}
