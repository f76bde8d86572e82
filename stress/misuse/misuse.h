/* misuse.h: shared by the programs of this folder. Each misuses its malloc in one way, and is linked only with libc;
 * stress/misuse/check runs it with a malloc preloaded.
 *
 * The first line of standard output says what the report must contain: the address, then words. If the program
 * survives, its last line is "went on". */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hides from the compiler where the pointer comes from, so that it drops no call and no store. */
static inline char *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return (char *)pointer;
}

/* For bad arguments, or a step before the misuse that failed. */
static inline void give_up(const char *what)
{
    fprintf(stderr, "misuse: %s\n", what);
    exit(2);
}

static inline char *allocate(size_t size)
{
    char *block = opaque(malloc(size));
    if (block == NULL) give_up("malloc failed");
    return block;
}

static inline void expect(const void *address, const char *words)
{
    printf("0x%016llx %s\n", (unsigned long long)(uintptr_t)address, words);
    fflush(stdout);
}

/* "first changed byte: offset OFFSET of SIZE" */
static inline void expect_offset(const void *address, long offset, size_t size)
{
    char words[80];
    snprintf(words, sizeof words, "first changed byte: offset %ld of %zu", offset, size);
    expect(address, words);
}

static inline int went_on(void)
{
    puts("went on");
    return 0;
}

static inline const char *argument(int argc, char **argv, int index)
{
    if (argc <= index) give_up("an argument is missing: see stress/misuse/misuse.cmake");
    return argv[index];
}

static inline long number(int argc, char **argv, int index)
{
    return strtol(argument(argc, argv, index), NULL, 0);
}
static inline size_t size_argument(int argc, char **argv, int index)
{
    return (size_t)number(argc, argv, index);
}
