/* wrong_program.c: a C program that misuses malloc, for tests of the heap's reports without C++ and perhaps without
 * glibc. The reports need names of signals and stack walks, which differ from libc to libc.
 *
 * usage: PROGRAM double-free|use-after-free|segv
 * Exit status 3: nothing stopped it; 2: bad input. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/calls.h"

/* Separate functions with frame pointers, so that their return addresses are in the report. */
static __attribute__((noinline)) char *obtain(size_t size_bytes)
{
    char *block = calls.malloc(size_bytes);
    __asm__ volatile("" : : "r"(block) : "memory"); /* prevents a tail call */
    return block;
}

static __attribute__((noinline)) void give_back(void *block)
{
    calls.free(block);
    __asm__ volatile("" : : : "memory");
}

static void use_after_free(void)
{
    /* Some of these blocks are sampled. They are only read, since the others hold links of the heap after free. */
    for (int i = 0; i < 10000; i++) {
        char *volatile block = obtain(100);
        give_back(block);
        (void)*(volatile char *)block;
    }
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    char *volatile block = obtain(100);
    volatile uintptr_t nowhere = 8;
    if (strcmp(what, "double-free") == 0) {
        give_back(block);
        give_back(block);
    } else if (strcmp(what, "use-after-free") == 0) {
        use_after_free();
    } else if (strcmp(what, "segv") == 0) {
        *(volatile char *)nowhere = 1;
    } else {
        fprintf(stderr, "wrong_program: '%s' is none of double-free, use-after-free, segv\n", what);
        return 2;
    }
    fprintf(stderr, "wrong_program: nobody stopped it\n");
    return 3;
}
