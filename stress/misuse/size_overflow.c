/* size_overflow.c: HOW: asks for a size that no block can have. The size is volatile, since compilers warn if they see
 * it. */
#include "misuse.h"

int main(int argc, char **argv)
{
    const char *how = argument(argc, argv, 1);
    volatile size_t count = (size_t)1 << 62, beyond = (size_t)PTRDIFF_MAX + 1;
    char *block = allocate(10), *none;
    expect((void *)(strcmp(how, "calloc") == 0 || strcmp(how, "reallocarray") == 0 ? count : beyond), "");
    if (strcmp(how, "calloc") == 0) {
        none = opaque(calloc(count, 8));
    } else if (strcmp(how, "reallocarray") == 0) {
        none = opaque(reallocarray(block, count, 8));
    } else if (strcmp(how, "realloc") == 0) {
        none = opaque(realloc(block, beyond));
    } else {
        none = opaque(malloc(beyond));
    }
    return none == NULL ? went_on() : 1;
}
