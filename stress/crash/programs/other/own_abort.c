/* own_abort.c: a program notices by a checksum that its own table has changed, and ends itself. */
// expect: library=both cause=abort grade=found
#include "../program.h"

struct table {
    uint64_t sum;
    uint64_t values[10];
};

PLAINLY static void table_set(struct table *table, size_t i, uint64_t value)
{
    table->sum += value - table->values[i];
    table->values[i] = value;
}

PLAINLY static void fatal(const char *text)
{
    fprintf(stderr, "fatal: %s\n", text);
    abort(); /* guilty */
}

PLAINLY static void table_check(const struct table *table)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < 10; i++) sum += table->values[i];
    if (sum != table->sum) fatal("the sum is wrong"); /* also guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct table));
    struct table *table = (struct table *)need(calloc(1, sizeof *table));
    for (size_t i = 0; i < 10; i++) table_set(table, i, i * i);
    table_check(table);
    table->values[3]++;
    table_check(table);
    return 4;
}
