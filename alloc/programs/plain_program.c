/* plain_program.c: a C program for the tests of the override, preloaded and static. It uses malloc and no C++; its exit
 * status says whether hakmem's heap served it and left errno alone before main. If an argument is given, /proc/self/maps
 * must not contain that word: preloading must not load the C++ runtime. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"

/* Weak, since the program is also linked without the library, which is preloaded then. */
#pragma weak hak_stats_get

static void *use(void *failed)
{
    for (size_t size = 1; size < 20u << 20; size = size * 3 + 1) {
        char *volatile block = malloc(size);
        char *volatile zero = calloc(size, 1);
        if (block == NULL || zero == NULL || zero[size - 1] != 0) return failed;
        memset(block, 1, size);
        block = realloc(block, 2 * size);
        if (block == NULL || block[size - 1] != 1) return failed;
        free(block);
        free(zero);
    }
    return NULL;
}

static int check(int argc, char **argv)
{
    static char failed;
    pthread_t thread;
    void *result = &failed;
    if (use(&failed) != NULL) return 2;
    if (pthread_create(&thread, NULL, use, &failed) != 0) return 3;
    if (pthread_join(thread, &result) != 0 || result != NULL) return 4;

    char *volatile huge = malloc(10u << 20);
    if (hak_stats_get == NULL) return 5;
    struct hak_stats stats;
    hak_stats_get(&stats);
    if (stats.huge_bytes < 10u << 20 || stats.heap_count < 2) return 6; /* malloc is not hakmem's */
    free(huge);

    if (argc > 1) {
        char line[512];
        FILE *maps = fopen("/proc/self/maps", "r");
        if (maps == NULL) return 7;
        while (fgets(line, sizeof line, maps) != NULL)
            if (strstr(line, argv[1]) != NULL) return 8;
        fclose(maps);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int status = errno != 0 ? 1 : check(argc, argv);
    if (status != 0) fprintf(stderr, "plain_program: step %d failed\n", status);
    return status;
}
