/* aligned_new.cc: a node made with aligned, nothrow new gets no value; its memory belonged to a block that was freed
 * rightly. */
// expect: library=release cause=null_stored grade=found
#include "../program.h"

#include <new>

struct alignas(64) Node {
    uint64_t key;
    uint64_t *value;
    uint64_t more[6];
};

static volatile uint64_t next_key = 7;

PLAINLY static Node *make_node()
{
    Node *node = new (std::nothrow) Node;
    if (node == nullptr) _exit(3);
    node->key = next_key;
    node->value = nullptr; /* guilty */
    return node;
}

PLAINLY static uint64_t value_of(const Node *node)
{
    return *node->value;
}

int main()
{
    char *before = static_cast<char *>(need(malloc(sizeof(Node))));
    leave_text(before, sizeof(Node));
    free(before);
    return value_of(make_node()) == 0 ? 4 : 5;
}
