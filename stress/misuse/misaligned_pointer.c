/* misaligned_pointer.c: SIZE OFFSET: frees a block that begins beside where it does. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1));
    char *beside = block + number(argc, argv, 2);
    expect(beside, "");
    free(opaque(beside));
    return went_on();
}
