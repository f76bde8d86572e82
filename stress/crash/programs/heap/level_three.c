/* level_three.c: a name is cleared after it was freed; the validate library's highest level finds it soon. */
// expect: library=validate cause=use_after_free grade=found
// set: HAKMEM_FAILFAST_LEVEL=3
#include "../program.h"

struct name {
    uint64_t length;
    char letters[72];
};

PLAINLY static struct name *name_make(const char *letters)
{
    struct name *name = (struct name *)need(malloc(sizeof *name));
    name->length = strlen(letters);
    strcpy(name->letters, letters);
    return name;
}

PLAINLY static void name_end(struct name *name)
{
    free(name); /* also guilty */
}

PLAINLY static void name_clear(struct name *name)
{
    memset(name->letters, 0, sizeof name->letters); /* guilty */
}

PLAINLY static void other_names(void)
{
    enum { NAMES = 3000 };
    for (int i = 0; i < NAMES; i++) {
        struct name *name = name_make("another name");
        name_clear(name);
        name_end(name);
    }
}

int main(void)
{
    earlier_owners(sizeof(struct name));
    struct name *name = name_make("a name");
    name_clear(name);
    name_end(name);
    name_clear(name);
    other_names();
    return 4;
}
