/* early_free.c: a child is freed while its parent still points to it. Its first word then holds a link of the list of
 * free blocks, which the program follows. */
// expect: library=release cause=use_after_free grade=found
#include "heap_program.h"

struct item {
    struct item *child;
    uint64_t value;
    char rest[160];
};

PLAINLY static struct item *make_item(struct item *child)
{
    struct item *item = calloc(1, sizeof *item);
    if (item == NULL) _exit(3);
    item->child = child;
    return item;
}

PLAINLY static void drop(struct item *item)
{
    free(item); /* guilty */
}

PLAINLY static uint64_t sum(const struct item *item, const struct item *last)
{
    uint64_t values = 0;
    for (; item != last; item = item->child) values += item->value;
    return values;
}

int main(void)
{
    static struct item last;
    struct item *parent = make_item(make_item(make_item(&last)));
    uint64_t before = sum(parent, &last);
    drop(parent->child);
    return sum(parent, &last) == before ? 4 : 5;
}
