/* interior_pointer.c: SIZE OFFSET: frees a pointer into a block. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1));
    char *inside = block + number(argc, argv, 2);
    expect(inside, "");
    free(opaque(inside));
    return went_on();
}
