/* uninitialised_local.c: a local pointer is set on only one of two paths. On the other it holds what an earlier call
 * left on the stack; that call did nothing wrong. */
// expect: library=both cause=uninitialised,wild_read,use_after_return grade=not_found
// build: -O0 -Wno-sometimes-uninitialized -Wno-conditional-uninitialized
#include "../program.h"

PLAINLY static uint64_t fill_stack(uint64_t with)
{
    volatile uint64_t room[64];
    for (int i = 0; i < 64; i++) room[i] = with + 0x4141414141414141;
    return room[63];
}

PLAINLY static uint64_t value_or_default(const uint64_t *value, int is_set)
{
    uint64_t room[16];
    const uint64_t *chosen; /* guilty function */
    if (is_set) chosen = value;
    room[is_set] = *chosen;
    return room[is_set];
}

int main(void)
{
    earlier_owners(64);
    uint64_t *value = (uint64_t *)need(calloc(1, sizeof *value));
    uint64_t before = value_or_default(value, 1);
    uint64_t sum = fill_stack(1);
    return value_or_default(value, 0) + sum == before ? 4 : 5;
}
