/* never_returned.c: SIZE: frees the 16 bytes after the last of the 65 blocks of 1008 bytes in a slab of 64 KiB. */
#include "misuse.h"

int main(int argc, char **argv)
{
    char *block = allocate(size_argument(argc, argv, 1)); /* 1008, or 32 less to leave room for the frame */
    char *behind = (char *)((uintptr_t)block & ~(uintptr_t)0xffff) + 65 * 1008;
    expect(behind, "");
    free(opaque(behind));
    return went_on();
}
