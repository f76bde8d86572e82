/* small_block.c: a table's size is a product that overflows 32 bits; the block is small, and the table is written to
 * its end. */
// expect: library=both cause=overflow,wild_write,out_of_range grade=likely
#include "../program.h"

struct table {
    uint64_t *values;
    uint32_t count;
    char rest[40];
};

PLAINLY static void table_make(struct table *table, uint32_t count)
{
    table->count = count;
    table->values = (uint64_t *)need(malloc(count * (uint32_t)sizeof *table->values)); /* also guilty */
}

PLAINLY static void table_fill(const struct table *table)
{
    for (uint32_t i = 0; i < table->count; i++) table->values[i] = ~0ull - i; /* guilty */
}

int main(void)
{
    static volatile uint32_t huge = (1u << 29) + 64;
    struct table *table = (struct table *)need(calloc(1, sizeof *table));
    table_make(table, 100);
    table_fill(table);
    table_make(table, huge);
    table_fill(table);
    return 4;
}
