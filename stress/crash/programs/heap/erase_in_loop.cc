/* erase_in_loop.cc: a loop over a map erases the element that its iterator points to, and then advances the
 * iterator. */
// expect: library=both cause=use_after_free,double_free,bad_free grade=found
#include <map>
#include <string>

#include "../program.h"

using Names = std::map<int, std::string>;

PLAINLY static void fill(Names &names)
{
    for (int i = 0; i < 60; i++) names[i] = "a name that is too long to be kept inside of the string";
}

PLAINLY static void drop(Names &names, Names::iterator at)
{
    names.erase(at); /* guilty */
}

PLAINLY static char *next_owner()
{
    char *text = (char *)need(malloc(72)); /* a node's size */
    memset(text, 'o', 72);
    return text;
}

PLAINLY static size_t drop_odd(Names &names)
{
    size_t dropped = 0;
    for (Names::iterator at = names.begin(); at != names.end(); ++at) { /* also guilty */
        if (at->first % 2 == 0) continue;
        drop(names, at);
        if (next_owner()[0] == 'o') dropped++;
    }
    return dropped;
}

int main()
{
    Names names;
    fill(names);
    return drop_odd(names) == 30 ? 4 : 5;
}
