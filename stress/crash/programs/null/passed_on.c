/* passed_on.c: a route's gate is closed; its number goes through two functions that only pass it on, each by a result and a
 * parameter, before it is used. */
// expect: library=both cause=null_stored grade=likely
#include "../program.h"

struct gate {
    uint64_t number;
    const char *name;
};

static struct gate north = {1, "north"}, south = {2, "south"};
static struct gate *gates[2] = {&north, &south};

PLAINLY static void gate_close(int number)
{
    gates[number] = NULL; /* guilty */
}

PLAINLY static struct gate *gate_at(int number)
{
    return gates[number];
}

PLAINLY static struct gate *gate_of_route(int route)
{
    struct gate *gate = gate_at(route % 2);
    return gate;
}

PLAINLY static uint64_t gate_number(const struct gate *gate)
{
    return gate->number;
}

PLAINLY static uint64_t route_number(int route)
{
    return 10 * gate_number(gate_of_route(route));
}

int main(void)
{
    uint64_t before = route_number(3);
    gate_close(1);
    return route_number(3) == before ? 4 : 5;
}
