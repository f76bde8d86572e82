/* msan_program.c: checks what MemorySanitizer believes about blocks of hak_*.
 *
 * usage: PROGRAM marks         asks it about blocks of all kinds; exit status 1 and a line for each wrong answer
 *        PROGRAM read          decides by a byte that nobody has written: the sanitizer must end it with a report
 *        PROGRAM write-read    the same after writing it: it must not */
#include <sanitizer/msan_interface.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "hakmem/hakmem.h"

/* Sizes of small blocks of several classes, of runs, and of huge blocks. */
static const size_t sizes[] = {1, 16, 100, 1024, 5000, 40000, 300000, 3 << 20, 9 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int wrong;

/* Checks both ends, every byte of the first 4 KiB, and then every 61st byte. */
static void expect(bool initialised, const void *block, size_t from, size_t to, const char *what, size_t size_bytes)
{
    const char *bytes = block;
    for (size_t at = from; at < to; at += at + 61 < to && at > 4096 ? 61 : 1) {
        if ((__msan_test_shadow(bytes + at, 1) == -1) == initialised) continue;
        fprintf(stderr, "msan_program: %s: byte %zu of %zu counts as %sinitialised\n", what, at, size_bytes,
                initialised ? "not " : "");
        wrong++;
        return;
    }
}

static void try_fresh(size_t size_bytes)
{
    for (int round = 0; round < 2; round++) { /* the second round most likely gets the same block */
        char *block = hak_malloc(size_bytes), *zero = hak_calloc(size_bytes, 1);
        char *aligned = hak_aligned_alloc(256, size_bytes);
        expect(false, block, 0, size_bytes, "malloc", size_bytes);
        expect(true, zero, 0, size_bytes, "calloc", size_bytes);
        expect(false, aligned, 0, size_bytes, "aligned_alloc", size_bytes);
        memset(block, 1, size_bytes);
        memset(zero, 2, size_bytes);
        memset(aligned, 3, size_bytes);
        expect(true, block, 0, size_bytes, "memset", size_bytes); /* checks the test itself */
        hak_free(block);
        hak_free(zero);
        hak_free(aligned);
    }
}

/* Writes the first half only. After realloc it must still be initialised, and the second half and any new part must
 * not. */
static void try_realloc(size_t old_bytes, size_t new_bytes)
{
    char *block = hak_malloc(old_bytes);
    size_t half = (old_bytes + 1) / 2, kept_bytes = old_bytes < new_bytes ? old_bytes : new_bytes;
    memset(block, 1, half);
    if (half > kept_bytes) half = kept_bytes;
    block = hak_realloc(block, new_bytes);
    char what[64];
    snprintf(what, sizeof what, "realloc of %zu bytes", old_bytes);
    expect(true, block, 0, half, what, new_bytes);
    expect(false, block, half, kept_bytes, what, new_bytes);
    expect(false, block, kept_bytes, new_bytes, what, new_bytes);
    hak_free(block);
}

static int marks(void)
{
    for (int i = 0; i < SIZES; i++) {
        try_fresh(sizes[i]);
        for (int j = 0; j < SIZES; j++) try_realloc(sizes[i], sizes[j]);
        try_realloc(sizes[i], sizes[i] + 1);
        try_realloc(sizes[i], sizes[i] - sizes[i] / 8);
    }
    if (wrong == 0) printf("%d sizes: the marks are right\n", SIZES);
    return wrong == 0 ? 0 : 1;
}

static int read_byte(bool write_first)
{
    char *block = hak_malloc(100);
    if (write_first) memset(block, 7, 100);
    printf(block[50] == 7 ? "it is 7\n" : "it is not 7\n");
    hak_free(block);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "marks") == 0) return marks();
    if (strcmp(what, "read") == 0) return read_byte(false);
    if (strcmp(what, "write-read") == 0) return read_byte(true);
    fprintf(stderr, "msan_program: '%s' is none of marks, read, write-read\n", what);
    return 2;
}
