/* assertion.c: a queue counts down below zero items, and its own assertion fails. */
// expect: library=both cause=assertion grade=found
#undef NDEBUG
#include <assert.h>

#include "../program.h"

struct queue {
    int64_t count;
    char *items[8];
};

PLAINLY static void push(struct queue *queue, const char *text)
{
    queue->items[queue->count++] = copy_text(text);
}

PLAINLY static void pop(struct queue *queue)
{
    queue->count--;
    assert(queue->count >= 0); /* guilty */
    free(queue->items[queue->count]);
}

int main(void)
{
    earlier_owners(sizeof(struct queue));
    struct queue *queue = (struct queue *)need(calloc(1, sizeof *queue));
    push(queue, "one");
    pop(queue);
    pop(queue);
    free(queue);
    return 4;
}
