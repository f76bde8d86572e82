/* background.c: a daemon that forks twice, leaves its terminal and its folder, and outlives the process that started
 * it. */
// expect: library=both cause=null_stored grade=found
#include <fcntl.h>

#include "../program.h"

struct service {
    char *state;
    char rest[88];
};

PLAINLY static void leave(void)
{
    if (fork() != 0) _exit(0);
    setsid();
    if (fork() != 0) _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0 || chdir("/") != 0) _exit(3);
    for (int i = 0; i < 3; i++) dup2(nothing, i);
}

PLAINLY static void set_state(struct service *service, const char *state)
{
    service->state = copy_text(state);
}

PLAINLY static void drop_state(struct service *service)
{
    free(service->state);
    service->state = NULL; /* guilty */
}

PLAINLY static char state_of(const struct service *service)
{
    return service->state[0];
}

int main(void)
{
    earlier_owners(sizeof(struct service));
    struct service *service = (struct service *)need(calloc(1, sizeof *service));
    set_state(service, "before");
    leave();
    drop_state(service);
    set_state(service, "running");
    char before = state_of(service);
    drop_state(service);
    return state_of(service) == before ? 4 : 5;
}
