/* other_path.c: prints a list's head or its tail. The head was dropped, and the tail is NULL too; the code of the other
 * path lies between the load of the head and its use. */
// expect: library=both cause=null_stored,null_returned,bad_value_stored grade=likely
#include "../program.h"

struct node {
    uint64_t value;
    char rest[40];
};

struct list {
    struct node *head, *tail;
    uint64_t printed;
};

static volatile uint64_t printed;

PLAINLY static uint64_t value_of(const struct node *node)
{
    return node->value;
}

PLAINLY static void count_tail(void)
{
    printed++;
}

PLAINLY static uint64_t print(const struct list *list, int is_head)
{
    const struct node *node; /* also guilty function */
    if (__builtin_expect(!is_head, 1)) {
        count_tail();
        node = list->tail;
    } else {
        node = list->head;
    }
    return value_of(node) + 1;
}

PLAINLY static void drop_tail(struct list *list)
{
    list->tail = NULL;
}

PLAINLY static void drop_head(struct list *list)
{
    list->head = NULL; /* guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct node));
    struct list *list = (struct list *)need(calloc(1, sizeof *list));
    list->head = (struct node *)need(calloc(1, sizeof(struct node)));
    list->tail = (struct node *)need(calloc(1, sizeof(struct node)));
    uint64_t before = print(list, 1) + print(list, 0);
    drop_head(list);
    drop_tail(list);
    return print(list, 1) == before ? 4 : 5;
}
