/* stale_remote_free.c: a thread frees a message that is already free, and whose block holds something else by now. For
 * the heap that is a valid free; the block's next owner then shares it with the one that still uses it. */
// expect: library=release cause=use_after_free grade=found
#include "heap_program.h"

struct node {
    struct node *next;
    uint64_t value;
    char rest[112];
};

enum { BUFFERS = 2000 };

PLAINLY static void *drop_message(void *message)
{
    free(message); /* guilty */
    return NULL;
}

PLAINLY static struct node *make_node(void)
{
    static struct node last;
    struct node *node = malloc(sizeof *node);
    if (node == NULL) _exit(3);
    node->next = &last;
    return node;
}

PLAINLY static void fill_buffer(void)
{
    char *buffer = malloc(sizeof(struct node));
    if (buffer == NULL) _exit(3);
    memset(buffer, 'y', sizeof(struct node));
}

PLAINLY static uint64_t next_value(const struct node *node)
{
    return node->next->value;
}

int main(void)
{
    void *message = malloc(sizeof(struct node));
    if (message == NULL) _exit(3);
    free(message);
    struct node *node = make_node();
    in_thread(drop_message, message);
    for (int i = 0; i < BUFFERS; i++) fill_buffer();
    return next_value(node) == 0 ? 4 : 5;
}
