/* bad_function_pointer.c: a plugin's name is longer than its array, and overwrites the function pointer behind it. */
// expect: library=both cause=overflow,bad_function_pointer grade=found
#include "../program.h"

struct plugin {
    char name[24];
    int (*run)(int);
    int64_t runs;
};

static int twice(int value)
{
    return 2 * value;
}

PLAINLY static void set_function(struct plugin *plugin, int (*run)(int))
{
    plugin->run = run;
}

PLAINLY static void set_name(struct plugin *plugin, const char *name)
{
    strcpy(plugin->name, name); /* guilty */
}

PLAINLY static int run(struct plugin *plugin, int value)
{
    plugin->runs++;
    return plugin->run(value);
}

int main(void)
{
    earlier_owners(sizeof(struct plugin));
    struct plugin *plugin = (struct plugin *)need(calloc(1, sizeof *plugin));
    set_function(plugin, twice);
    set_name(plugin, "doubler");
    int before = run(plugin, 1);
    set_name(plugin, "the doubler of the numbers that it gets");
    return run(plugin, 1) == before ? 4 : 5;
}
