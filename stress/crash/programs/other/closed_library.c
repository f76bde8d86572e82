/* closed_library.c: a library is closed while one of its functions is still in a table. */
// expect: library=both cause=unmapped,bad_function_pointer grade=found
#include <dlfcn.h>

#include "../program.h"

typedef double number_fn(double);

struct tool {
    void *library;
    number_fn *function;
    char rest[48];
};

PLAINLY static void tool_open(struct tool *tool, const char *library, const char *function)
{
    tool->library = need(dlopen(library, RTLD_NOW));
    void *found = need(dlsym(tool->library, function));
    memcpy(&tool->function, &found, sizeof found);
}

PLAINLY static void tool_close(struct tool *tool)
{
    dlclose(tool->library); /* guilty */
}

PLAINLY static double tool_use(const struct tool *tool, double value)
{
    return tool->function(value) + 1;
}

int main(void)
{
    earlier_owners(sizeof(struct tool));
    struct tool *tool = (struct tool *)need(calloc(1, sizeof *tool));
    tool_open(tool, "libm.so.6", "cbrt");
    double before = tool_use(tool, 8);
    tool_close(tool);
    return tool_use(tool, 8) == before ? 4 : 5;
}
