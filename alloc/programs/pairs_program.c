/* pairs_program [fork] [heaps]: the same work whatever the options, in the main thread, in a second one, and in a child. Prints
 * the figures of the heap as lines "MOMENT NAME VALUE". pairs_check says what must hold between them.
 *
 * Moments: start; full, when all blocks live; rest, when all are freed; purged, after hak_purge_all. Those of the child begin
 * with "child-". Exit status 1 if a block changed. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem/hakmem.h"

/* Weak: they are the preloaded library's. */
extern __typeof__(hak_figures_get) hak_figures_get __attribute__((weak));
extern __typeof__(hak_purge_all) hak_purge_all __attribute__((weak));
extern __typeof__(hak_heap_new) hak_heap_new __attribute__((weak));
extern __typeof__(hak_heap_malloc) hak_heap_malloc __attribute__((weak));
extern __typeof__(hak_heap_destroy) hak_heap_destroy __attribute__((weak));

enum { SMALL = 12000, RUNS = 48, HUGE_BLOCKS = 2, BLOCKS = SMALL + RUNS + HUGE_BLOCKS, HEAP_BLOCKS = 500 };

static unsigned char *blocks[2][BLOCKS];
static int bad;

static size_t bytes_of(int index)
{
    if (index < SMALL) return 16 + (size_t)index * 7919 % 2000;
    if (index < SMALL + RUNS) return 40000 + (size_t)index * 4099 % 200000;
    return (size_t)3 << 20;
}

static void print(const char *child, const char *moment, const char *name, uint64_t value)
{
    char line[160];
    const int length = snprintf(line, sizeof line, "%s%s %s %llu\n", child, moment, name, (unsigned long long)value);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(3);
}

static void moment(const char *child, const char *name)
{
    static struct hak_figures figures;
    hak_figures_get(&figures, sizeof figures);
#define PAIRS_PRINT(member, kind, meaning) print(child, name, #member, figures.member);
    HAKMEM_FIGURES(PAIRS_PRINT)
#undef PAIRS_PRINT
    uint64_t live = 0;
    for (int i = 0; i < HAKMEM_CLASSES_MAX; i++) live += figures.class_live_blocks[i] * figures.classes[i].block_bytes;
    print(child, name, "sampled_live_bytes", live);
}

static void *take(void *seat)
{
    unsigned char **mine = blocks[(intptr_t)seat];
    for (int i = 0; i < BLOCKS; i++) {
        const size_t bytes = bytes_of(i);
        mine[i] = i % 5 == 0 ? realloc(malloc(bytes / 2), bytes) : i % 7 == 0 ? calloc(1, bytes) : malloc(bytes);
        if (mine[i] == NULL) _exit(4);
        memset(mine[i], i & 0xff, bytes);
    }
    return NULL;
}

/* Frees the other thread's blocks of even numbers, and its own of odd ones. */
static void *give(void *seat)
{
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *block = blocks[i % 2 == 0 ? 1 - (intptr_t)seat : (intptr_t)seat][i];
        const size_t bytes = bytes_of(i);
        if (block[0] != (i & 0xff) || block[bytes - 1] != (i & 0xff)) bad = 1;
        free(block);
    }
    return NULL;
}

static void beside(void *(*work)(void *))
{
    pthread_t other;
    if (pthread_create(&other, NULL, work, (void *)1) != 0) _exit(5);
    work(NULL);
    pthread_join(other, NULL);
}

static void use_heap(void)
{
    struct hak_heap *heap = hak_heap_new();
    if (heap == NULL) _exit(6);
    for (int i = 0; i < HEAP_BLOCKS; i++) {
        unsigned char *block = hak_heap_malloc(heap, bytes_of(i * 20));
        if (block == NULL) _exit(7);
        memset(block, i & 0xff, bytes_of(i * 20));
        if (i % 3 == 0) free(block);
    }
    hak_heap_destroy(heap);
}

static void rounds(const char *child, int has_heaps)
{
    for (int round = 0; round < 2; round++) {
        beside(take);
        if (round == 1) moment(child, "full");
        if (has_heaps) use_heap();
        beside(give);
    }
    moment(child, "rest");
    raise(SIGURG); /* asks for the figures and a profile, if options say so */
    raise(SIGWINCH);
    hak_purge_all();
    moment(child, "purged");
}

int main(int argc, char **argv)
{
    int has_fork = 0, has_heaps = 0;
    for (int i = 1; i < argc; i++) {
        has_fork |= strcmp(argv[i], "fork") == 0;
        has_heaps |= strcmp(argv[i], "heaps") == 0;
    }
    if (hak_figures_get == NULL) return 2;
    moment("", "start");
    beside(take);
    const pid_t child = has_fork ? fork() : -1;
    if (child == 0) {
        beside(give);
        rounds("child-", has_heaps);
        exit(bad);
    }
    beside(give);
    rounds("", has_heaps);
    int status = 0;
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) return 8;
    return bad;
}
