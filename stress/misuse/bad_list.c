/* bad_list.c: KIND: overwrites the link in a freed block, which is its first word if blocks have no frames. The new
 * link is misaligned, leads elsewhere, leads to a live block, or forms a circle. */
#include "misuse.h"

#include <malloc.h>

static void *volatile sink;

int main(int argc, char **argv)
{
    const char *kind = argument(argc, argv, 1);
    /* A slab of 32 KiB blocks has only one block in use, so if one block comes back twice, it has one too many. */
    size_t size = strcmp(kind, "law") == 0 ? 32768 : 100;
    char *first = allocate(size), *second = size == 100 ? allocate(size) : NULL;
    const char *found = second;
    char *link = second;
    if (strcmp(kind, "head_alignment") == 0) found = link = second + 1;
    if (strcmp(kind, "next_link_range") == 0) found = link = (char *)0x4141414141414140;
    if (strcmp(kind, "middle") == 0) found = link = second + 16;
    if (strcmp(kind, "circle") == 0) found = link = first;
    if (strcmp(kind, "law") == 0) link = first, found = NULL;
    if (strcmp(kind, "handed_out_twice") != 0 && strcmp(kind, "circle") != 0) free(second);
    free(first);
    memcpy(opaque(first), &link, sizeof link);
    expect(found, "");
    if (strcmp(kind, "law") == 0) malloc_trim(0); /* returns the list to its slab, block by block */
    for (int i = 0; i < 3; i++) sink = opaque(malloc(size));
    return went_on();
}
