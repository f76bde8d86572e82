/* destroyed_heap.c: SIZE HOW: uses a heap of hak_heap_new, or a block of it, after all of it went back. Where the library
 * that is preloaded has no such heaps, it gives up. */
#include "misuse.h"

struct hak_heap *hak_heap_new(void) __attribute__((weak));
void *hak_heap_malloc(struct hak_heap *heap, size_t size) __attribute__((weak));
void hak_heap_free_all(struct hak_heap *heap) __attribute__((weak));
void hak_heap_destroy(struct hak_heap *heap) __attribute__((weak));

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1);
    const char *how = argument(argc, argv, 2);
    if (hak_heap_new == NULL) give_up("the library has no heaps of the program's own");
    struct hak_heap *heap = hak_heap_new();
    char *block = heap != NULL ? opaque(hak_heap_malloc(heap, size)) : NULL;
    if (block == NULL) give_up("hak_heap_malloc failed");
    int is_of_heap = strcmp(how, "handle") == 0 || strcmp(how, "twice") == 0;
    expect(is_of_heap ? (void *)heap : block, "");
    if (strcmp(how, "freed") == 0) {
        free(block);
        free(opaque(block));
        return went_on();
    }
    if (strcmp(how, "free_all") == 0) hak_heap_free_all(heap);
    else hak_heap_destroy(heap);
    if (strcmp(how, "realloc") == 0) {
        opaque(realloc(block, 2 * size));
    } else if (strcmp(how, "handle") == 0) {
        opaque(hak_heap_malloc(heap, size));
    } else if (strcmp(how, "twice") == 0) {
        hak_heap_destroy(heap);
    } else {
        free(block);
    }
    return went_on();
}
