/* long_list.cc: each node of a list owns the next one, so the first one's destructor calls all the others
 * recursively. */
// expect: library=both cause=stack_overflow grade=found
#include <memory>

#include "../program.h"

struct Node {
    std::unique_ptr<Node> next;
    uint64_t number = 0;
    PLAINLY ~Node() { number = 0; /* guilty function */ }
};

PLAINLY static std::unique_ptr<Node> make_list(uint64_t count)
{
    std::unique_ptr<Node> first;
    for (uint64_t i = 0; i < count; i++) {
        std::unique_ptr<Node> node = std::make_unique<Node>();
        node->next = std::move(first);
        first = std::move(node);
    }
    return first;
}

PLAINLY static void drop_list(std::unique_ptr<Node> list)
{
    list.reset();
}

int main()
{
    drop_list(make_list(10));
    drop_list(make_list(1000000));
    return 4;
}
