/* stack_freed.c: frees a configuration that was put on the stack for a short while. Only the debug-validation library
 * stops there: the release library takes such a pointer for one of another malloc. */
// expect: library=validate cause=bad_free grade=found
#include "heap_program.h"

struct config {
    char *path;
    char room[64];
};

PLAINLY static void release_config(struct config *config)
{
    free(config); /* guilty */
}

int main(void)
{
    struct config config = {.path = NULL};
    snprintf(config.room, sizeof config.room, "%d", (int)getpid());
    release_config(&config);
    return 4;
}
