/* stale_realloc.c: a list's blocks move when it grows, and a cursor into it still points to the old place. */
// expect: library=release cause=use_after_free grade=found
#include "heap_program.h"

struct list {
    uint64_t *items;
    size_t count;
};

PLAINLY static void grow(struct list *list)
{
    list->count *= 20;
    list->items = realloc(list->items, list->count * sizeof *list->items);
    if (list->items == NULL) _exit(3);
}

PLAINLY static void store_at(uint64_t *cursor, uint64_t value)
{
    *cursor = value; /* guilty */
}

int main(void)
{
    struct list list = {calloc(10, sizeof(uint64_t)), 10};
    if (list.items == NULL) _exit(3);
    uint64_t *cursor = list.items;
    store_at(cursor, 7);
    grow(&list);
    store_at(cursor, 0x4242424242424242);
    allocate_some(10 * sizeof(uint64_t));
    return 4;
}
