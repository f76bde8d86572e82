/* link_never_set.c: a tree's node is made without its parent, which is whatever the block's previous owner left
 * there. A loop goes up through the parents. */
// expect: library=release cause=uninitialised grade=found
#include "../program.h"

struct node {
    uint64_t key;
    struct node *parent;
    uint64_t rest[4];
};

PLAINLY static struct node *node_make(uint64_t key)
{
    struct node *node = (struct node *)need(malloc(sizeof *node)); /* guilty */
    node->key = key;
    if (key % 8 != 5) node->parent = NULL;
    return node;
}

PLAINLY static int node_depth(struct node *node)
{
    int depth = 0;
    for (node = node->parent; node != NULL; node = node->parent) depth++;
    return depth;
}

int main(void)
{
    int depth = 0;
    earlier_owners(sizeof(struct node));
    for (uint64_t i = 0; i < 20; i++) depth += node_depth(node_make(i));
    return depth == 0 ? 4 : 5;
}
