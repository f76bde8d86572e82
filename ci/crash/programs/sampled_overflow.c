/* sampled_overflow.c: a loop writes one word too many into a block that is sampled: it crashes there and then. */
// expect: library=release cause=overflow grade=found seconds=10
// set: HAKMEM_GUARD_SAMPLE=1
#include "program.h"

struct table {
    uint64_t values[10];
};

PLAINLY static struct table *table_make(void)
{
    return (struct table *)need(calloc(1, sizeof(struct table)));
}

PLAINLY static void table_set(struct table *table, size_t place, uint64_t value)
{
    volatile uint64_t *values = table->values;
    values[place] = value; /* guilty */
}

PLAINLY static void table_fill(struct table *table, size_t count)
{
    for (size_t i = 0; i < count; i++) table_set(table, i, i);
}

int main(void)
{
    enum { TABLES = 200 };
    earlier_owners(sizeof(struct table));
    for (int i = 0; i < TABLES; i++) {
        struct table *table = table_make();
        table_fill(table, 10);
        if (i >= TABLES / 2) table_fill(table, 11);
    }
    return 4;
}
