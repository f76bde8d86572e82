/* write_before.c: SIZE OFFSET ALIGN: writes in front of a block, then frees it. ALIGN 0: malloc. With a fourth argument, that
 * many bytes behind the block below are what is overwritten. */
#include "misuse.h"

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1), align = size_argument(argc, argv, 3);
    long offset = number(argc, argv, 2);
    char *block = align == 0 ? allocate(size) : opaque(aligned_alloc(align, size));
    if (block == NULL) give_up("aligned_alloc failed");
    if (argc > 4) {
        char *below = block;
        block = allocate(size);
        if (block < below || block - below > 4096) give_up("the second block is not behind the first");
        for (long i = 0; i < number(argc, argv, 4); i++) below[(long)size + i] ^= 1;
        expect(block, "the block below is overwritten behind its end too");
        free(opaque(block));
        return went_on();
    }
    expect_offset(block, offset, size);
    block[offset] ^= 1;
    free(opaque(block));
    return went_on();
}
