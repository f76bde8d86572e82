/* own_title.c: a program writes a title over its arguments, as servers do, and blanks after it. */
// expect: library=both cause=null_stored grade=found
// run: sh
#include "../program.h"

struct part {
    char *name;
    char rest[40];
};

PLAINLY static void name_part(struct part *part, const char *name)
{
    part->name = copy_text(name);
}

PLAINLY static void strip_part(struct part *part)
{
    free(part->name);
    part->name = NULL; /* guilty */
}

PLAINLY static char letter_of(const struct part *part)
{
    return part->name[0];
}

PLAINLY static void set_title(char **words, int count, const char *title)
{
    size_t room = (size_t)(words[count - 1] + strlen(words[count - 1]) - words[0]);
    memset(words[0], ' ', room);
    memcpy(words[0], title, strlen(title));
}

int main(int count, char **words)
{
    if (count != 4 || strcmp(words[1], "--level") != 0 || strcmp(words[2], "the second one") != 0) return 3;
    earlier_owners(sizeof(struct part));
    struct part *part = (struct part *)need(calloc(1, sizeof *part));
    name_part(part, words[2]);
    char before = letter_of(part);
    set_title(words, count, "part");
    strip_part(part);
    return letter_of(part) == before ? 4 : 5;
}
