/* any_moment.c: one thread reads a setting all the time, and another one clears it at a moment that no run repeats. */
// expect: library=both cause=null_stored grade=found
#include "../program.h"

struct setting {
    const char *volatile name;
    uint64_t reads;
    char rest[56];
};

PLAINLY static void setting_change(struct setting *setting, const char *name)
{
    setting->name = name;
}

PLAINLY static void setting_drop(struct setting *setting)
{
    setting->name = NULL; /* guilty */
}

PLAINLY static char setting_letter(const struct setting *setting)
{
    return setting->name[0];
}

static void *read_it(void *argument)
{
    struct setting *setting = (struct setting *)argument;
    while (setting_letter(setting) != 0) setting->reads++;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    earlier_owners(sizeof(struct setting));
    struct setting *setting = (struct setting *)need(calloc(1, sizeof *setting));
    setting_change(setting, "first");
    if (pthread_create(&thread, NULL, read_it, setting) != 0) return 3;
    for (int i = 0; i < 20; i++) {
        usleep(500);
        setting_change(setting, i % 2 == 0 ? "second" : "third");
    }
    setting_drop(setting);
    sleep(20); /* the reader crashes meanwhile, however busy the machine is */
    setting_change(setting, "");
    pthread_join(thread, NULL);
    return 4;
}
