/* write_after.c: SIZE OFFSET ALIGN HOW: writes past the end of a block, then frees it, reallocs it, or asks for its
 * usable size. ALIGN 0: malloc. */
#include "misuse.h"

#include <malloc.h>

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1), align = size_argument(argc, argv, 3);
    long offset = number(argc, argv, 2);
    const char *how = argument(argc, argv, 4);
    char *block = align == 0 ? allocate(size) : opaque(aligned_alloc(align, size));
    if (block == NULL) give_up("aligned_alloc failed");
    expect_offset(block, offset, size);
    block[offset] ^= 1;
    if (strcmp(how, "realloc") == 0) {
        block = opaque(realloc(opaque(block), 2 * size));
    } else if (strcmp(how, "usable") == 0) {
        printf("%zu\n", malloc_usable_size(opaque(block)));
    } else {
        free(opaque(block));
    }
    return went_on();
}
