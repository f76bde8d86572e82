/* sampled_stale.c: an event is read after it was freed; its block was sampled, so any access to it faults. */
// expect: library=release cause=use_after_free grade=found seconds=10
// set: HAKMEM_GUARD_SAMPLE=1
#include "../program.h"

struct event {
    uint64_t number;
    char rest[88];
};

PLAINLY static struct event *event_make(uint64_t number)
{
    struct event *event = (struct event *)need(malloc(sizeof *event));
    event->number = number;
    return event;
}

PLAINLY static void event_end(struct event *event)
{
    free(event); /* guilty */
}

PLAINLY static uint64_t event_number(const struct event *event)
{
    return event->number; /* also guilty */
}

int main(void)
{
    enum { EVENTS = 300 };
    uint64_t sum = 0;
    struct event *events[EVENTS];
    earlier_owners(sizeof(struct event));
    for (uint64_t i = 0; i < EVENTS; i++) events[i] = event_make(i);
    for (int i = 0; i < EVENTS; i++) sum += event_number(events[i]);
    for (int i = 0; i < EVENTS; i++) event_end(events[i]);
    for (int i = 0; i < EVENTS; i++) sum += event_number(events[i]);
    return sum == 0 ? 3 : 4;
}
