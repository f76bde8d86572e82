/* crash_misuse.c: see crash_misuse.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash_misuse.h"
#include "hakmem/hakmem.h"

/* Weak: nothing defines it until the library is preloaded. */
#pragma weak hak_purge

void tell(const char *name, uint64_t value)
{
    printf("%s 0x%llx\n", name, (unsigned long long)value);
    fflush(stdout);
}

PLAINLY static char *allocate_100(void)
{
    char *volatile block = malloc(100);
    return block;
}

PLAINLY static void free_first(void *block)
{
    free(block);
    __asm__ volatile("" : : : "memory"); /* no tail call: each is to be in the backtrace */
}

PLAINLY static void free_second(void *block)
{
    free(block);
    __asm__ volatile("" : : : "memory");
}

void misuse(const char *how)
{
    char *volatile block = allocate_100();
    tell("block", (uintptr_t)block);
    if (strcmp(how, "double_free") == 0) free_first(block);
    if (strcmp(how, "write_after") == 0) memset(block + 100, 'x', 3);
    if (strcmp(how, "write_before") == 0) block[-1] = 'x';
    if (strcmp(how, "write_after_free") == 0) {
        free_first(block);
        block[40] = 'x';
        block[42] = 'x';
        hak_purge();
    }
    if (strcmp(how, "realloc") == 0) {
        free_first(block);
        block = realloc(block, 200);
    }
    free_second(block);
}

void bad_link(void)
{
    char *volatile block = malloc(64);
    tell("block", (uintptr_t)block);
    free(block);
    memcpy(block, &(uint64_t){0x123450}, sizeof(uint64_t));
    for (int i = 0; i < 3; i++) {
        char *volatile next = malloc(64);
        if (next == NULL) _exit(3);
    }
}

void freed_twice(void)
{
    char *volatile block = malloc(64);
    tell("block", (uintptr_t)block);
    hak_purge();
    free(block);
    free(block);
    hak_purge();
}
