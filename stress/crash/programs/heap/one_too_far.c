/* one_too_far.c: a copy has no room for the text's terminating zero. The validate library finds it when the copy is
 * freed, in a function that does nothing wrong. */
// expect: library=validate cause=overflow grade=found
#include "../program.h"

PLAINLY static char *room_for(const char *text)
{
    return (char *)need(malloc(strlen(text))); /* also guilty */
}

PLAINLY static void copy_into(char *to, const char *text)
{
    strcpy(to, text); /* guilty */
}

PLAINLY static void touch(char *text)
{
    text[0] = 'T';
}

PLAINLY static void forget(char *text)
{
    free(text);
}

int main(void)
{
    static const char *const texts[] = {"a text of one length", "one of another length", "the third of the texts"};
    earlier_owners(24);
    for (int i = 0; i < 3; i++) {
        char *copy = room_for(texts[i]);
        copy_into(copy, texts[i]);
        touch(copy);
        forget(copy);
    }
    return 4;
}
