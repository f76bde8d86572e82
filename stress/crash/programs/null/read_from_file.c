/* read_from_file.c: a program stores NULL in a field, then a pointer, and then reads the field from a file that holds
 * NULL. No instruction of the program stores the last value. */
// expect: library=both cause=null_stored grade=not_found
#include "../program.h"

#include <fcntl.h>

struct state {
    char *name;
    uint64_t count;
};

static struct state state;

PLAINLY static void state_clear(void)
{
    state.name = NULL;
    state.count = 0;
}

PLAINLY static void state_name(const char *name)
{
    state.name = copy_text(name);
}

PLAINLY static void state_load(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &state, sizeof state) != sizeof state) _exit(3); /* guilty */
    close(fd);
}

PLAINLY static int state_first(void)
{
    return state.name[0];
}

int main(void)
{
    state_clear();
    state_name("a name");
    if (state_first() != 'a') return 3;
    state_load("/dev/zero");
    return state_first();
}
