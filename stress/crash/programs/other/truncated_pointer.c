/* truncated_pointer.c: a pointer is passed through a handle of 32 bits. */
// expect: library=both cause=wild_read,wild_write,bad_value_stored grade=likely
#include "../program.h"

struct window {
    uint64_t width;
    char title[48];
};

struct event {
    uint32_t kind, handle;
    char rest[24];
};

PLAINLY static void event_make(struct event *event, const struct window *window)
{
    event->kind = 1;
    event->handle = (uint32_t)(uintptr_t)window; /* guilty */
}

PLAINLY static uint64_t width_of(const struct event *event)
{
    const struct window *window = (const struct window *)(uintptr_t)event->handle;
    return window->width; /* also guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct event));
    struct window *window = (struct window *)need(calloc(1, sizeof *window));
    struct event *event = (struct event *)need(calloc(1, sizeof *event));
    event_make(event, window);
    return width_of(event) == 0 ? 4 : 5;
}
