/* free_then_next.c: a loop that frees a list reads each node's link and text after freeing the node. */
// expect: library=both cause=use_after_free,double_free,bad_free grade=found
#include "../program.h"

struct node {
    char *text;
    uint64_t number;
    struct node *next;
    char rest[24];
};

PLAINLY static struct node *push(struct node *next, uint64_t number)
{
    struct node *node = (struct node *)need(malloc(sizeof *node));
    node->text = copy_text("a text that is long enough for a block of its own kind");
    node->number = number;
    node->next = next;
    return node;
}

PLAINLY static uint64_t length(const char *text)
{
    return strlen(text);
}

PLAINLY static uint64_t free_list(struct node *node)
{
    uint64_t bytes = 0;
    while (node != NULL) {
        free(node); /* guilty */
        bytes += length(node->text + 1);
        memset(need(malloc(sizeof *node)), 0x7e, sizeof *node);
        node = node->next; /* also guilty */
    }
    return bytes;
}

int main(void)
{
    earlier_owners(sizeof(struct node));
    struct node *first = NULL;
    for (uint64_t i = 0; i < 5; i++) first = push(first, i);
    return free_list(first) == 0 ? 4 : 5;
}
