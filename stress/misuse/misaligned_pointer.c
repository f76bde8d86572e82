/* misaligned_pointer.c: SIZE OFFSET: frees a block at an address near its start. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1));
    char *beside = block + number(argc, argv, 2);
    expect(beside, "");
    free(opaque(beside));
    return went_on();
}
