/* calloc_never_set.c: a table of names is zeroed when it is made, and gets one name too few; qsort's comparison then
 * reads the name that was never stored. */
// expect: library=both cause=uninitialised,null_stored grade=likely
#include "../program.h"

struct names {
    char **items;
    size_t count;
};

PLAINLY static void names_make(struct names *names, size_t count)
{
    names->items = (char **)need(calloc(count, sizeof *names->items)); /* guilty */
    names->count = count;
}

PLAINLY static void names_fill(struct names *names)
{
    for (size_t i = 1; i < names->count; i++)
        names->items[i] = copy_text(i % 2 == 0 ? "even" : "odd"); /* also guilty */
}

PLAINLY static int compare_names(const void *a, const void *b)
{
    const char *first = *(char *const *)a, *second = *(char *const *)b;
    return (first[0] > second[0]) - (first[0] < second[0]);
}

PLAINLY static void names_sort(struct names *names)
{
    qsort(names->items, names->count, sizeof *names->items, compare_names);
}

int main(void)
{
    struct names names;
    earlier_owners(20 * sizeof(char *));
    names_make(&names, 20);
    names_fill(&names);
    names_sort(&names);
    return 4;
}
