/* program.h: for the programs of this folder, in C and C++. Each crashes for a different reason, and has several
 * innocent suspects: its blocks have had other owners, and its fields other writers. stress/crash/programs_test runs
 * them, and expects ci/replay to name none of those. The line that a maintainer would want to know about is marked:
 * guilty. Another answer that is just as true is marked: also guilty; a whole function: guilty function. The head of
 * each file says, for the test:
 *
 *   expect: library=L cause=A,B grade=G    with library L (release, validate, both) the program crashes; the cause is A
 *                                          or B; the verdict's grade is at least G (found, likely, not_found)
 *           seconds=N                      optional: the answer comes within N seconds, on a machine with other work
 *   build: OPTIONS                         added to the compiler's; the word stripped: without symbols
 *   run: MODE                              sh: started by a shell script; signal NAME: gets that signal once it has
 *                                          printed "ready"
 *   stdin: LINE                            a line of its standard input
 *   set: NAME=VALUE                        a variable of its environment
 *
 * A program ends with status 3 if it could not reach its bug, and with 4 if it did not crash. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAINLY __attribute__((noinline))
#define HELPER __attribute__((noinline, unused))

HELPER static void *need(void *block)
{
    if (block == NULL) _exit(3);
    return block;
}

/* Suspects for every program: they own blocks of the sizes that it uses, before it does, and free them. */
HELPER static void leave_text(char *block, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) block[i] = (char)('a' + i % 26);
}

HELPER static void leave_zeroes(char *block, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) block[i] = 0;
}

HELPER static void drop_all(char **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) free(blocks[i]);
}

HELPER static void earlier_owners(size_t size_bytes)
{
    enum { BLOCKS = 24 };
    char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)need(malloc(size_bytes));
        leave_zeroes(blocks[i], size_bytes);
        leave_text(blocks[i], size_bytes);
    }
    drop_all(blocks, BLOCKS);
}

HELPER static char *copy_text(const char *text)
{
    char *copy = (char *)need(malloc(strlen(text) + 1));
    strcpy(copy, text);
    return copy;
}

HELPER static void in_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) != 0) _exit(3);
    pthread_join(thread, NULL);
}
