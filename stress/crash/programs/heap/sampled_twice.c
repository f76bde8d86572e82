/* sampled_twice.c: two lists own the same block, and both free it; it was sampled, so the second free is found. */
// expect: library=release cause=double_free grade=found seconds=10
// set: HAKMEM_GUARD_SAMPLE=1
#include "../program.h"

enum { ITEMS = 300 };

struct list {
    char *items[ITEMS];
};

PLAINLY static void list_fill(struct list *list)
{
    for (int i = 0; i < ITEMS; i++) list->items[i] = copy_text("an item of the list, which is not very short");
}

PLAINLY static void list_share(struct list *to, const struct list *from)
{
    memcpy(to->items, from->items, sizeof to->items);
}

PLAINLY static void list_free(struct list *list)
{
    for (int i = 0; i < ITEMS; i++) free(list->items[i]); /* guilty */
}

int main(void)
{
    static struct list first, second;
    earlier_owners(64);
    list_fill(&first);
    list_share(&second, &first);
    list_free(&first);
    list_free(&second);
    return 4;
}
