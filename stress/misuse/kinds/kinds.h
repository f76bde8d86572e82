/* kinds.h: shared by kinds.c and kinds_cxx.cc: programs that misuse their malloc, each in one way, told apart by name. They
 * are compiled as a program of a user is, without frame pointers. stress/misuse/kinds/measure runs them.
 *
 * A line that ends in "told" is one that a full report names: where the block was allocated, where it was freed, or where
 * the misuse is. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kind {
    const char *name, *what;
    void (*run)(void);
};

/* Hides from the compiler where the pointer comes from, so that it drops no call and no store. */
static inline char *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return (char *)pointer;
}

/* Reads a byte for good. */
static inline void look(const char *at)
{
    __asm__ volatile("" : : "r"(*(const volatile char *)at));
}

/* Runs the kind that the command line names; without a name, lists them. Status 2: there is no such kind. */
static inline int run_kind(const struct kind *kinds, int argc, char **argv)
{
    for (const struct kind *kind = kinds; kind->name != NULL; kind++) {
        if (argc < 2) printf("%s|%s\n", kind->name, kind->what);
        if (argc < 2 || strcmp(kind->name, argv[1]) != 0) continue;
        kind->run();
        puts("end");
        return 0;
    }
    if (argc >= 2) fprintf(stderr, "kinds: no kind %s: run without arguments for the list\n", argv[1]);
    return argc < 2 ? 0 : 2;
}
