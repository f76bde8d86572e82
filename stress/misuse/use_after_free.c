/* use_after_free.c: SIZE OFFSET HOW: uses a freed block. HOW: read or write, of a large block, at the offset; pointer:
 * follows a pointer that was read from a small one. */
#include "misuse.h"

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1);
    long offset = number(argc, argv, 2);
    const char *how = argument(argc, argv, 3);
    char *block = allocate(size);
    memset(block, 0, size);
    if (strcmp(how, "pointer") == 0) {
        expect((void *)0xdededededededede, "a pointer that was read from a freed block");
        free(block);
        opaque(*(char **)(void *)(opaque(block) + offset))[0] = 1;
        return went_on();
    }
    char words[80];
    snprintf(words, sizeof words, "the access is at offset %ld of %zu", offset, size);
    expect(block + offset, words);
    free(block);
    if (strcmp(how, "write") == 0) opaque(block)[offset] = 1;
    else __asm__ volatile("" : : "r"(*(volatile char *)(opaque(block) + offset)));
    return went_on();
}
