/* never_returned.c: SIZE WHERE: frees a place in a slab that was never a block. WHERE: end, the 16 bytes after the last of
 * the 65 blocks of 1008 bytes in a slab of 64 KiB; or how many bytes behind the first block. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1)); /* 1008, or 32 less to leave room for the frame */
    char *behind = strcmp(argument(argc, argv, 2), "end") == 0
                       ? (char *)((uintptr_t)block & ~(uintptr_t)0xffff) + 65 * 1008
                       : block + number(argc, argv, 2);
    expect(behind, "");
    free(opaque(behind));
    return went_on();
}
