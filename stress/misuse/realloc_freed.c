/* realloc_freed.c: SIZE NEW: reallocs a freed block. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1));
    size_t size = size_argument(argc, argv, 2);
    expect(block, "");
    free(block);
    block = opaque(realloc(opaque(block), size));
    return block == NULL ? went_on() : 1;
}
