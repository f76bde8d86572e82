/* moved_null.c: a table grows, and realloc moves it with the NULL that was stored in it before. */
// expect: library=both cause=null_stored grade=likely
#include "../program.h"

struct table {
    char **names;
    size_t count;
};

PLAINLY static void table_put(struct table *table, size_t place, const char *name)
{
    table->names[place] = copy_text(name);
}

PLAINLY static void table_take(struct table *table, size_t place)
{
    free(table->names[place]);
    table->names[place] = NULL; /* guilty */
}

PLAINLY static void table_grow(struct table *table)
{
    size_t before = table->count;
    table->count *= 100;
    table->names = (char **)need(realloc(table->names, table->count * sizeof *table->names));
    for (size_t i = before; i < table->count; i++) table_put(table, i, "new");
}

PLAINLY static size_t table_letters(const struct table *table)
{
    size_t letters = 0;
    for (size_t i = 0; i < table->count; i++) letters += table->names[i][0] == 'n';
    return letters;
}

int main(void)
{
    earlier_owners(8 * sizeof(char *));
    struct table table = {(char **)need(malloc(8 * sizeof(char *))), 8};
    for (size_t i = 0; i < table.count; i++) table_put(&table, i, "name");
    size_t before = table_letters(&table);
    table_take(&table, 5);
    table_grow(&table);
    return table_letters(&table) == before ? 4 : 5;
}
