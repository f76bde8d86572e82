/* write_before.c: SIZE OFFSET ALIGN: writes in front of a block, then frees it. ALIGN 0: malloc. */
#include "misuse.h"

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1), align = size_argument(argc, argv, 3);
    long offset = number(argc, argv, 2);
    char *block = align == 0 ? allocate(size) : opaque(aligned_alloc(align, size));
    if (block == NULL) give_up("aligned_alloc failed");
    expect_offset(block, offset, size);
    block[offset] ^= 1;
    free(opaque(block));
    return went_on();
}
