/* reads_input.c: a store of names follows commands on standard input; "clear" clears a name's value, and "get" reads
 * it. */
// expect: library=both cause=null_stored grade=found
// stdin: set colour blue
// stdin: set size large
// stdin: get colour
// stdin: clear size
// stdin: set size small
// stdin: clear colour
// stdin: get size
// stdin: get colour
#include "../program.h"

struct item {
    char name[32];
    char *value;
    uint64_t uses;
};

static struct item *items[8];

PLAINLY static struct item *item_for(const char *name)
{
    for (int i = 0; i < 8; i++) {
        if (items[i] == NULL) {
            items[i] = (struct item *)need(malloc(sizeof *items[i]));
            snprintf(items[i]->name, sizeof items[i]->name, "%s", name);
        }
        if (strcmp(items[i]->name, name) == 0) return items[i];
    }
    _exit(3);
}

PLAINLY static void set(const char *name, const char *value)
{
    item_for(name)->value = copy_text(value);
}

PLAINLY static void clear(const char *name)
{
    struct item *item = item_for(name);
    free(item->value);
    item->value = NULL; /* guilty */
}

PLAINLY static char get(const char *name)
{
    return item_for(name)->value[0];
}

int main(void)
{
    char line[80], word[16], name[32], value[32];
    unsigned got = 0;
    earlier_owners(sizeof(struct item));
    while (fgets(line, sizeof line, stdin) != NULL) {
        value[0] = 0;
        if (sscanf(line, "%15s %31s %31s", word, name, value) < 2) return 3;
        if (strcmp(word, "set") == 0) set(name, value);
        if (strcmp(word, "clear") == 0) clear(name);
        if (strcmp(word, "get") == 0) got += (unsigned char)get(name);
    }
    return got == 0 ? 3 : 4;
}
