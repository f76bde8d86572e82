/* sampled_overflow.c: a loop writes one word too many into a sampled block, and crashes at that write. */
// expect: library=release cause=overflow grade=found seconds=10
// set: HAKMEM_GUARD_SAMPLE=1
#include <malloc.h>

#include "../program.h"

enum { WORDS = 138, TABLE_BYTES = WORDS * 8 }; /* 1104 may be used where it is sampled, else more */

struct table {
    uint64_t values[WORDS];
};

PLAINLY static struct table *table_make(void)
{
    return (struct table *)need(malloc(TABLE_BYTES));
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
    enum { TABLES = 500 };
    earlier_owners(TABLE_BYTES);
    for (int i = 0; i < TABLES; i++) {
        struct table *table = table_make();
        table_fill(table, WORDS);
        if (malloc_usable_size(table) == TABLE_BYTES) table_fill(table, WORDS + 1);
    }
    return 3;
}
