/* threads_program.c: a test of a malloc (calls.h) without C++. First single calls, against the C standard. Then threads
 * allocate, resize, free and exchange blocks, while children are forked and threads come and go; each block's whole
 * content is checked. At the end, if the inspector is linked in, the heap's laws must hold.
 *
 * usage: PROGRAM [--sane-sizes] [OPERATIONS [SEED]]
 * OPERATIONS: operations of each of the four threads; default 50000. --sane-sizes: never asks for a size that the heap
 * must refuse, since at level 3 the debug-validation build stops there. Exit status 1, and a line on standard error, at
 * the first error; 2: bad input. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem/hakmem.h"
#include "hakmem/validate.h"
#include "programs/calls.h"

/* Weak: libhakmem.a has no inspector. */
#pragma weak hak_inspect

enum {
    THREADS = 4,
    SLOTS = 200, /* blocks that a thread holds */
    MAILBOXES = 64,
    FORKS = 8,
    WAVES = 10, /* waves of threads that end and leave blocks behind */
    WAVE_BLOCKS = 100,
};

static void check(bool holds, const char *what, size_t number)
{
    if (holds) return;
    fprintf(stderr, "threads_program: %s (%zu)\n", what, number);
    _exit(1);
}

/* --- blocks with a content --------------------------------------------------------------------------------- */

/* The head of each block. The rest of the block is filled with bytes computed from the stamp. */
struct head {
    size_t size_bytes;
    uint64_t stamp;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Draws a size: mostly small ones of all classes, sometimes a run or a huge block; never smaller than a head. */
static size_t draw_size(uint64_t *random)
{
    uint64_t draw = next_random(random);
    unsigned kind = (unsigned)(draw % 1000), shift = (unsigned)(draw >> 10) % 12;
    if (kind == 0) return (2u << 20) + draw % (1u << 20);
    if (kind < 8) return (32u << 10) + draw % (200u << 10);
    if (kind < 60) return 1024 + draw % (31u << 10);
    return sizeof(struct head) + draw % (16u << (shift / 2));
}

static unsigned char content(uint64_t stamp, size_t at)
{
    return (unsigned char)(stamp + at * 37);
}

static void fill(void *block, size_t from, size_t size_bytes, uint64_t stamp)
{
    unsigned char *bytes = block;
    if (from < sizeof(struct head)) from = sizeof(struct head);
    memcpy(block, &(struct head){size_bytes, stamp}, sizeof(struct head));
    for (size_t at = from; at < size_bytes; at++) bytes[at] = content(stamp, at);
}

static struct head check_content(const void *block)
{
    struct head head;
    const unsigned char *bytes = block;
    memcpy(&head, block, sizeof head);
    for (size_t at = sizeof head; at < head.size_bytes; at++)
        check(bytes[at] == content(head.stamp, at), "a block's content has changed", at);
    return head;
}

static void *make(uint64_t *random)
{
    uint64_t draw = next_random(random);
    size_t size_bytes = draw_size(random), align_bytes = 16;
    void *block = NULL;
    if (draw % 8 == 0) {
        const unsigned char *zeros = block = calls.calloc(1, size_bytes);
        check(block != NULL, "calloc found no memory", size_bytes);
        for (size_t at = 0; at < size_bytes; at++) check(zeros[at] == 0, "calloc's memory is not zero", at);
    } else if (draw % 8 == 1) {
        align_bytes = (size_t)16 << draw / 8 % 10;
        if (draw >> 20 & 1) {
            block = calls.aligned_alloc(align_bytes, size_bytes);
        } else {
            check(calls.posix_memalign(&block, align_bytes, size_bytes) == 0, "posix_memalign failed", align_bytes);
        }
    } else {
        block = calls.malloc(size_bytes);
    }
    check(block != NULL, "there was no memory", size_bytes);
    check((uintptr_t)block % align_bytes == 0, "a block is not aligned", align_bytes);
    check(calls.usable_size(block) >= size_bytes, "a block is too small", size_bytes);
    fill(block, 0, size_bytes, next_random(random));
    return block;
}

static void drop(void *block)
{
    check_content(block);
    errno = ERANGE;
    calls.free(block);
    check(errno == ERANGE, "free changed errno", (size_t)errno);
}

static void *resize(void *block, uint64_t *random)
{
    struct head old = check_content(block);
    size_t size_bytes = draw_size(random);
    unsigned char *resized = calls.realloc(block, size_bytes);
    check(resized != NULL, "realloc found no memory", size_bytes);
    size_t kept_bytes = old.size_bytes < size_bytes ? old.size_bytes : size_bytes;
    for (size_t at = sizeof old; at < kept_bytes; at++)
        check(resized[at] == content(old.stamp, at), "realloc lost content", at);
    fill(resized, kept_bytes, size_bytes, old.stamp);
    return resized;
}

/* --- single calls ------------------------------------------------------------------------------------------ */

static void try_sizes(void)
{
    for (size_t size = 0; size < 5u << 20; size = size < 2100 ? size + 1 : size + size / 7) {
        unsigned char *block = calls.malloc(size), *zero = calls.calloc(size, 1);
        check(block != NULL && zero != NULL && block != zero, "malloc or calloc of a size", size);
        check(calls.usable_size(block) >= size && (uintptr_t)block % 16 == 0, "a block's size or alignment", size);
        memset(block, 0xa5, size);
        for (size_t at = 0; at < size; at += size < 5000 ? 1 : 509) check(zero[at] == 0, "calloc gives zeros", at);
        block = calls.reallocarray(block, 2, size + 1);
        check(block != NULL, "reallocarray of twice a size", size);
        for (size_t at = 0; at < size; at += size < 5000 ? 1 : 509) check(block[at] == 0xa5, "realloc keeps", at);
        calls.free(block);
        calls.free(zero);
    }
}

static void try_refusals(void)
{
    volatile size_t too_large = (size_t)PTRDIFF_MAX + 1, half = SIZE_MAX / 2 + 1;
    void *block = &block, *kept = calls.malloc(100);
    errno = 0;
    check(calls.malloc(too_large) == NULL && errno == ENOMEM, "malloc of too much", (size_t)errno);
    errno = 0;
    check(calls.calloc(half, 2) == NULL && errno == ENOMEM, "calloc of a product that overflows", (size_t)errno);
    errno = 0;
    check(calls.realloc(kept, too_large) == NULL && errno == ENOMEM, "realloc to too much", (size_t)errno);
    errno = 0;
    check(calls.reallocarray(kept, half, 3) == NULL && errno == ENOMEM, "reallocarray overflows", (size_t)errno);
    errno = 0;
    check(calls.posix_memalign(&block, 24, 10) == EINVAL && errno == 0, "posix_memalign refuses 24", (size_t)errno);
    check(block == &block, "posix_memalign writes only on success", 0);
    errno = EDOM;
    calls.free(NULL);
    calls.free(kept);
    check(errno == EDOM, "free keeps errno", (size_t)errno);
}

/* Checks that the malloc under test is ours: its figures must count a huge block. */
static void try_figures(void)
{
    struct hak_stats before, with, after;
    hak_stats_get(&before);
    enum { HUGE_BYTES = 65 << 20 }; /* more than may wait after free, at any level of checks */
    void *volatile huge = calls.malloc(HUGE_BYTES);
    hak_stats_get(&with);
    calls.free(huge);
    hak_stats_get(&after);
    check(with.huge_bytes >= before.huge_bytes + HUGE_BYTES, "the heap's figures: malloc is another's", 0);
    check(after.huge_bytes == before.huge_bytes, "the heap's figures after free", 0);
}

/* --- threads ----------------------------------------------------------------------------------------------- */

static uint64_t seed = 42, operations = 50000;
static _Atomic(void *) mailboxes[MAILBOXES];
static _Atomic(uint64_t) handed_over;

/* Puts a block, or NULL, into a mailbox and takes what was there, which often is another thread's block. */
static void *swap(uint64_t draw, void *block)
{
    /* acq_rel: publishes the content of the block that goes in, and acquires that of the one that comes out. */
    void *other = atomic_exchange_explicit(&mailboxes[draw % MAILBOXES], block, memory_order_acq_rel);
    if (other != NULL) atomic_fetch_add_explicit(&handed_over, 1, memory_order_relaxed);
    return other;
}

static void *work(void *number)
{
    uint64_t random = seed * 1000 + (uintptr_t)number;
    void *slots[SLOTS] = {NULL};
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t draw = next_random(&random);
        void **slot = &slots[draw % SLOTS];
        if (*slot == NULL) {
            *slot = make(&random);
        } else if (draw >> 32 & 1) {
            drop(*slot);
            *slot = NULL;
        } else if (draw >> 33 & 1) {
            *slot = swap(draw >> 40, *slot);
        } else {
            *slot = resize(*slot, &random);
        }
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i] != NULL) drop(slots[i]);
    return NULL;
}

static void drop_all(void **blocks, int count)
{
    for (int i = 0; i < count; i++)
        if (blocks[i] != NULL) drop(blocks[i]);
}

/* Uses the heap in a child of a process whose threads may be anywhere. The child checks only blocks that this thread
 * held: fork copies page after page while other threads write, so of their blocks it may see the pointer but not the
 * content. */
static void fork_child(uint64_t number)
{
    void *inherited[MAILBOXES];
    for (int i = 0; i < MAILBOXES; i++) inherited[i] = swap((uint64_t)i, NULL);
    pid_t child = fork();
    check(child >= 0, "fork", (size_t)errno);
    if (child == 0) {
        uint64_t random = seed * 2000 + number;
        void *blocks[SLOTS];
        for (int i = 0; i < SLOTS; i++) blocks[i] = make(&random);
        for (int i = 0; i < SLOTS; i++) blocks[i] = resize(blocks[i], &random);
        drop_all(inherited, MAILBOXES);
        drop_all(blocks, SLOTS);
        _exit(0);
    }
    drop_all(inherited, MAILBOXES);
    int status;
    while (waitpid(child, &status, 0) < 0) check(errno == EINTR, "waitpid", (size_t)errno);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child failed", (size_t)status);
}

static void *leave_blocks(void *argument)
{
    void **blocks = argument;
    uint64_t random = (uintptr_t)blocks;
    for (int i = 0; i < WAVE_BLOCKS; i++) {
        if (blocks[i] != NULL) drop(blocks[i]); /* left by a thread that has ended */
        blocks[i] = make(&random);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    int error = pthread_create(thread, NULL, body, argument);
    check(error == 0, "pthread_create", (size_t)error);
}

static void run_threads(void)
{
    static void *left[2][WAVE_BLOCKS];
    pthread_t workers[THREADS], short_lived[2];
    for (uintptr_t i = 0; i < THREADS; i++) start(&workers[i], work, (void *)(i + 1));
    for (uint64_t wave = 0; wave < WAVES; wave++) {
        for (int i = 0; i < 2; i++) start(&short_lived[i], leave_blocks, left[i]);
        if (wave < FORKS) fork_child(wave);
        for (int i = 0; i < 2; i++) pthread_join(short_lived[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i], NULL);
    for (int i = 0; i < 2 * WAVE_BLOCKS; i++) drop(left[i / WAVE_BLOCKS][i % WAVE_BLOCKS]);
    for (uint64_t i = 0; i < MAILBOXES; i++) {
        void *last = swap(i, NULL);
        if (last != NULL) drop(last);
    }
    check(handed_over > 0, "no block went from thread to thread", 0);
}

/* --- afterwards -------------------------------------------------------------------------------------------- */

static void inspect(void)
{
    struct hak_stats stats;
    struct hak_inspect_report report = {.broken_law = NULL};
    hak_purge();
    hak_stats_get(&stats);
    check(stats.dirty_bytes == 0 && stats.huge_cached_bytes == 0, "hak_purge left free memory", stats.dirty_bytes);
    if (!calls.is_libc) check(stats.run_bytes == 0 && stats.huge_count == 0, "figures after all was freed", 0);
    if (hak_inspect == NULL) {
        printf("not inspected: libhakmem.a has no inspector\n");
        return;
    }
    bool in_order = hak_inspect(&report);
    if (!in_order) fprintf(stderr, "threads_program: %s at %p\n", report.broken_law, report.address);
    check(in_order, "a law is broken", 0);
    if (!calls.is_libc) check(report.live_blocks == 0, "all was freed: live blocks", (size_t)report.live_blocks);
    printf("the laws hold: %u slabs, %llu blocks live\n", report.slab_count, (unsigned long long)report.live_blocks);
}

int main(int argc, char **argv)
{
    bool sane_sizes = argc > 1 && strcmp(argv[1], "--sane-sizes") == 0;
    uint64_t *const numbers[] = {&operations, &seed};
    for (int i = 1 + sane_sizes; i < argc; i++) {
        char *end;
        int index = i - 1 - sane_sizes;
        if (index < 2) *numbers[index] = strtoull(argv[i], &end, 10);
        if (index >= 2 || end == argv[i] || *end != '\0') {
            fprintf(stderr, "threads_program: '%s' is no number of operations and no seed\n", argv[i]);
            return 2;
        }
    }
    printf("seed %llu\n", (unsigned long long)seed);
    try_sizes();
    if (!sane_sizes) try_refusals();
    try_figures();
    run_threads();
    inspect();
    printf("%d threads, %llu operations each, %llu blocks handed over, %d children, %d short-lived threads\n", THREADS,
           (unsigned long long)operations, (unsigned long long)handed_over, FORKS, 2 * WAVES);
    return 0;
}
