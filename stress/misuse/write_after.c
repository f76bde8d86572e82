/* write_after.c: SIZE OFFSET ALIGN HOW: writes past the end of a block, then frees it, reallocs it, asks for its usable
 * size, or ends without freeing it; destroy: the block is of a heap that is then destroyed. ALIGN 0: malloc. */
#include "misuse.h"

#include <malloc.h>

struct hak_heap *hak_heap_new(void) __attribute__((weak));
void *hak_heap_malloc(struct hak_heap *heap, size_t size) __attribute__((weak));
void hak_heap_destroy(struct hak_heap *heap) __attribute__((weak));

static char *volatile kept;

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1), align = size_argument(argc, argv, 3);
    long offset = number(argc, argv, 2);
    const char *how = argument(argc, argv, 4);
    struct hak_heap *heap = strcmp(how, "destroy") == 0 && hak_heap_new != NULL ? hak_heap_new() : NULL;
    char *block = heap != NULL ? opaque(hak_heap_malloc(heap, size))
                  : align == 0 ? allocate(size)
                               : opaque(aligned_alloc(align, size));
    if (block == NULL) give_up("aligned_alloc failed");
    expect_offset(block, offset, size);
    block[offset] ^= 1;
    if (strcmp(how, "realloc") == 0) {
        block = opaque(realloc(opaque(block), 2 * size));
    } else if (strcmp(how, "usable") == 0) {
        printf("%zu\n", malloc_usable_size(opaque(block)));
    } else if (strcmp(how, "exit") == 0) {
        kept = block;
    } else if (heap != NULL) {
        hak_heap_destroy(heap);
    } else {
        free(opaque(block));
    }
    return went_on();
}
