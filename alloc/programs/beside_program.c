/* beside_program.c: a C program linked with libhakmem.a alone: hak_* works beside libc's malloc, and neither touches
 * the other's blocks. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem/hakmem.h"

/* The archive's internal names are local, so a program may use the same names. */
int pool_claim = 7;
int os_page_bytes = 8;

static int check(void)
{
    char *volatile theirs = malloc(10u << 20);
    if (theirs == NULL || hak_malloc_usable_size(theirs) != 0) return 2;
    struct hak_stats stats;
    hak_stats_get(&stats);
    if (stats.huge_bytes != 0) return 3; /* malloc is hakmem's, but should be libc's */
    char *volatile ours = hak_malloc(10u << 20);
    hak_stats_get(&stats);
    if (ours == NULL || stats.huge_bytes != 10u << 20) return 4;
    memset(ours, 1, 10u << 20);
    memset(theirs, 2, 10u << 20);
    for (size_t size = 1; size < 1u << 20; size = size * 2 + 1) {
        char *volatile a = hak_malloc(size), *volatile b = malloc(size);
        if (a == NULL || b == NULL) return 5;
        memset(a, 1, size);
        memset(b, 2, size);
        if (a[size - 1] != 1) return 6;
        hak_free(a);
        free(b);
    }
    hak_free(ours);
    free(theirs);
    return pool_claim == 7 && os_page_bytes == 8 ? 0 : 7;
}

int main(void)
{
    int status = check();
    if (status != 0) fprintf(stderr, "beside_program: step %d failed\n", status);
    return status;
}
