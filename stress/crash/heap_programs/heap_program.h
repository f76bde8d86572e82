/* heap_program.h: for the programs of this folder. Each has one planted bug that corrupts the heap, and crashes later
 * in another place. The faulty line is marked: guilty. stress/crash/replay_test finds the mark, and expects ci/replay
 * to name that line and its function. A program ends with status 3 if the heap was not laid out as the bug needs it,
 * and with 4 if it did not crash. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAINLY __attribute__((noinline))

struct pair {
    char *low, *high; /* neighbours: high begins at the end of low */
};

/* Two adjacent blocks of size_bytes, which is a size class. Blocks allocated on the way stay allocated. */
static inline struct pair neighbours(size_t size_bytes)
{
    enum { TRIES = 200 };
    char *before = malloc(size_bytes);
    for (int i = 0; i < TRIES; i++) {
        char *block = malloc(size_bytes);
        if (block == before + size_bytes) return (struct pair){before, block};
        before = block;
    }
    _exit(3);
}

/* Makes the heap follow the links of its free blocks of a class. */
static inline void allocate_some(size_t size_bytes)
{
    for (int i = 0; i < 8; i++) {
        char *volatile block = malloc(size_bytes);
        if (block == NULL) _exit(3);
    }
}

static inline void in_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0) _exit(3);
    pthread_join(thread, NULL);
}
