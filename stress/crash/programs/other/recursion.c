/* recursion.c: a function that parses brackets calls itself, as deep as the text says. */
// expect: library=both cause=stack_overflow grade=found
#include "../program.h"

enum { DEEP = 2000000 };

PLAINLY static int depth_of(const char *text, int depth)
{
    char room[64];
    snprintf(room, sizeof room, "%d", depth); /* guilty function */
    if (*text != '(') return room[0] != 0 ? depth : 0;
    return depth_of(text + 1, depth + 1) + 1;
}

PLAINLY static char *read_text(size_t depth)
{
    char *text = (char *)need(malloc(depth + 1));
    memset(text, '(', depth);
    text[depth] = 0;
    return text;
}

int main(void)
{
    earlier_owners(64);
    char *low = read_text(10);
    int depth = depth_of(low, 0);
    free(low);
    char *text = read_text(DEEP);
    return depth_of(text, 0) == depth ? 4 : 5;
}
