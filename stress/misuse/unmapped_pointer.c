/* unmapped_pointer.c: SIZE COUNT: frees a block twice; its memory was unmapped in between. */
#include "misuse.h"

#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

static int is_unmapped(char *address)
{
    void *page = (void *)((uintptr_t)address & ~(uintptr_t)4095);
    return msync(page, 4096, MS_ASYNC) != 0 && errno == ENOMEM;
}

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1), count = size_argument(argc, argv, 2);
    static char *blocks[256];
    if (count > 256) give_up("at most 256 blocks");
    for (size_t i = 0; i < count; i++) blocks[i] = allocate(size);
    for (size_t i = 0; i < count; i++) free(blocks[i]);
    malloc_trim(0);
    for (size_t i = 0; i < count; i++) {
        if (!is_unmapped(opaque(blocks[i]))) continue;
        expect(blocks[i], "");
        free(opaque(blocks[i]));
        return went_on();
    }
    give_up("this malloc has unmapped none of the blocks");
}
