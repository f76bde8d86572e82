/* null_in_list.c: static devices are in a list; one is unplugged, which clears its driver, and stays in the list. */
// expect: library=both cause=null_stored grade=found
// build: -O2
#include "../program.h"

struct driver {
    const char *name;
    int (*start)(void);
};

struct device {
    struct device *next;
    struct driver *driver;
    uint64_t uses;
};

static int start_nothing(void)
{
    return 1;
}

static struct driver disk = {"disk", start_nothing}, screen = {"screen", start_nothing};
static struct device devices[3] = {{&devices[1], &disk, 0}, {&devices[2], &screen, 0}, {NULL, &disk, 0}};
static struct device *first = devices;

PLAINLY static void plug(struct device *device, struct driver *driver)
{
    device->driver = driver;
}

PLAINLY static void unplug(struct device *device)
{
    device->driver = NULL; /* guilty */
}

PLAINLY static int start_all(void)
{
    int started = 0;
    for (struct device *device = first; device != NULL; device = device->next) started += device->driver->start();
    return started;
}

int main(void)
{
    earlier_owners(sizeof(struct device));
    unplug(&devices[1]);
    plug(&devices[1], &screen);
    int before = start_all();
    unplug(&devices[1]);
    return start_all() == before ? 4 : 5;
}
