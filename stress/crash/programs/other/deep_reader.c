/* deep_reader.c: at the bottom of a recursion a variable is read as if it were larger than the whole stack. */
// expect: library=both cause=wild_read,out_of_range,null_stored grade=not_found
#include "../program.h"

static volatile size_t size_bytes = 1 << 20;

PLAINLY static uint64_t checksum(const unsigned char *bytes, size_t count)
{
    uint64_t sum = 0; /* also guilty function */
    for (size_t i = 0; i < count; i++) sum += bytes[i];
    return sum;
}

PLAINLY static uint64_t visit_leaf(int depth)
{
    unsigned char bytes[32];
    memset(bytes, depth, sizeof bytes);
    return checksum(bytes, size_bytes); /* guilty */
}

PLAINLY static uint64_t visit(int depth)
{
    return depth == 0 ? visit_leaf(depth) : visit(depth - 1) + (uint64_t)depth;
}

int main(void)
{
    return visit(20) == 0 ? 4 : 5;
}
