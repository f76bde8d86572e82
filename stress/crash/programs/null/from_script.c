/* from_script.c: a shell script starts it, with arguments and a variable that the crash depends on. */
// expect: library=both cause=null_stored grade=found
// run: sh
#include "../program.h"

struct level {
    uint64_t *cells;
    char name[40];
};

PLAINLY static void load(struct level *level)
{
    level->cells = (uint64_t *)need(calloc(4, sizeof *level->cells));
}

PLAINLY static void unload(struct level *level)
{
    level->cells = NULL; /* guilty */
}

PLAINLY static uint64_t first_cell(const struct level *level)
{
    return level->cells[0];
}

int main(int count, char **words)
{
    const char *mode = getenv("PROGRAM_MODE");
    if (count != 4 || strcmp(words[1], "--level") != 0 || strcmp(words[2], "the second one") != 0) return 3;
    if (words[3][0] != 0 || mode == NULL || strcmp(mode, "a b=c") != 0) return 3;
    earlier_owners(sizeof(struct level));
    struct level *level = (struct level *)need(calloc(1, sizeof *level));
    load(level);
    uint64_t before = first_cell(level);
    unload(level);
    return first_cell(level) == before ? 4 : 5;
}
