/* stack_program.c: what a malloc may take of a thread's stack, and what a thread that is cancelled leaves. stack_check runs it
 * with each library and option. The dynamic linker resolves each function at the start, since that needs stack too.
 *
 *   paint CALLS            no call of malloc, realloc or free writes STACK_BYTES_MAX below its caller's frame
 *   forked CALLS SIGNAL    the same in a child that was forked, to which the signal comes again and again
 *   cancel THREADS [SIGNAL...]
 *                          threads on the smallest stacks are cancelled while they call the allocator and signals come: none
 *                          ends in such a call, and no call waits for ever
 *   wait SIGNAL FILE       the signal comes, and all threads sleep: FILE appears
 *
 * MINE_BYTES: how much thread-local data the program has. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem/hakmem.h"

#pragma weak hak_profile_dump
#pragma weak hak_stats_write
#pragma weak hak_purge_all

enum {
    STACK_BYTES_MAX = 4096,
    PAINTED_BYTES = 24 * 1024,
    SPARED_BYTES = 256, /* for the frames of those that paint and look */
    BLOCKS = 256,
    HANG_S = 60,
};

static _Thread_local char mine[MINE_BYTES];

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Of all kinds of blocks, small ones most often. */
static size_t draw_size(uint64_t *state)
{
    uint64_t kind = random_next(state) % 64;
    return 1 + random_next(state) % (kind == 0 ? 6u << 20 : kind < 4 ? 1u << 20 : kind < 16 ? 40000 : 2000);
}

static void fail(const char *what, unsigned long number)
{
    printf("stack_program: %s: %lu\n", what, number);
    exit(1);
}

/* --- painting ------------------------------------------------------------------------------------------------- */

enum call { FREE, MALLOC, REALLOC, ALIGNED, CALLS };

static __attribute__((noinline)) void call(enum call which, void **slot, size_t size)
{
    if (which == FREE) {
        free(*slot);
        *slot = NULL;
    } else if (which == MALLOC) {
        *slot = malloc(size);
    } else if (which == REALLOC) {
        void *moved = realloc(*slot, size);
        if (moved != NULL) *slot = moved;
    } else {
        *slot = aligned_alloc(64, (size + 63) / 64 * 64);
    }
}

static const uint64_t PAINT = 0xa5a5a5a5a5a5a5a5u;

static __attribute__((noinline)) size_t call_painted(enum call which, void **slot, size_t size)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0) / sizeof PAINT * sizeof PAINT;
    volatile uint64_t *low = (volatile uint64_t *)(frame - PAINTED_BYTES);
    volatile uint64_t *high = (volatile uint64_t *)(frame - SPARED_BYTES);
    for (volatile uint64_t *word = low; word < high; word++) *word = PAINT;
    call(which, slot, size);
    while (low < high && *low == PAINT) low++;
    return frame - (uintptr_t)low;
}

struct painting {
    long calls;
    int signal;
};

/* The handlers run on a stack of their own, so that only the allocator writes where it is painted. */
static void *paint(void *context)
{
    const struct painting *painting = context;
    static char handlers[1 << 16];
    static void *blocks[BLOCKS];
    stack_t own = {.ss_sp = handlers, .ss_size = sizeof handlers}, none = {.ss_flags = SS_DISABLE}, before;
    if (sigaltstack(&own, &before) != 0) fail("sigaltstack", (unsigned long)errno);
    uint64_t state = 88172645463325252u;
    for (long i = 0; i < painting->calls; i++) {
        void **slot = &blocks[random_next(&state) % BLOCKS];
        enum call which = *slot == NULL ? (random_next(&state) % 4 == 0 ? ALIGNED : MALLOC)
                                        : (random_next(&state) % 3 == 0 ? REALLOC : FREE);
        size_t size = draw_size(&state);
        if (painting->signal != 0 && i % 500 == 0) raise(painting->signal);
        size_t used = call_painted(which, slot, size);
        if (used >= STACK_BYTES_MAX) fail("bytes of stack in one call", used);
    }
    for (int i = 0; i < BLOCKS; i++) call(FREE, &blocks[i], 0);
    sigaltstack((before.ss_flags & SS_DISABLE) != 0 ? &none : &before, NULL);
    return NULL;
}

/* In two threads, one after the other: the second has a dead thread's heap. */
static void paint_in_threads(const struct painting *painting)
{
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 256 * 1024 + sizeof mine);
        if (pthread_create(&thread, &attributes, paint, (void *)painting) != 0) fail("no thread", 0);
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
    }
}

static void paint_in_a_child(const struct painting *painting)
{
    pid_t child = fork();
    if (child == 0) {
        paint_in_threads(painting);
        exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("status of the child", (unsigned)status);
}

/* --- cancellation ------------------------------------------------------------------------------------------------ */

enum { HELD = 16, AT_ONCE = 6 };

struct worker {
    pthread_t thread;
    uint64_t state;
    void *held[HELD];
    size_t sizes[HELD];
    volatile bool is_inside, is_ended; /* in a call of the allocator; cancelled */
    volatile unsigned long turns;
};

static int nowhere; /* /dev/null */

static void end(void *context)
{
    struct worker *worker = context;
    if (worker->is_inside) fail("cancelled in a call of the allocator, at turn", worker->turns);
    for (int i = 0; i < HELD; i++) {
        const unsigned char *bytes = worker->held[i];
        if (bytes != NULL && (bytes[0] != (unsigned char)i || bytes[worker->sizes[i] - 1] != (unsigned char)i))
            fail("a block has changed", (unsigned long)i);
        free(worker->held[i]);
    }
    worker->is_ended = true;
}

static void turn(struct worker *worker)
{
    uint64_t *state = &worker->state, kind = random_next(state) % 1024;
    int i = (int)(random_next(state) % HELD);
    size_t size = draw_size(state);
    worker->is_inside = true;
    if (kind == 0 && hak_profile_dump != NULL) {
        hak_profile_dump("/dev/null");
    } else if (kind < 4 && hak_stats_write != NULL) {
        hak_stats_write(nowhere, (enum hak_stats_format)(kind - 1));
    } else if (kind == 4 && hak_purge_all != NULL) {
        hak_purge_all();
    } else if (kind < 400) {
        free(worker->held[i]);
        worker->held[i] = NULL;
    } else {
        unsigned char *block = realloc(worker->held[i], size);
        if (block != NULL) {
            block[0] = block[size - 1] = (unsigned char)i;
            worker->held[i] = block;
            worker->sizes[i] = size;
        }
    }
    worker->is_inside = false;
    worker->turns++;
}

static void *work(void *context)
{
    struct worker *worker = context;
    pthread_cleanup_push(end, worker);
    for (;;) {
        turn(worker);
        if (random_next(&worker->state) % 8 == 0) pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void worker_start(struct worker *worker, uint64_t number)
{
    *worker = (struct worker){.state = number * 0x9e3779b97f4a7c15u | 1};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    int error = pthread_create(&worker->thread, &attributes, work, worker);
    if (error != 0) fail("no thread on the smallest stack", (unsigned long)error);
    pthread_attr_destroy(&attributes);
}

static void worker_cancel(struct worker *worker)
{
    void *result;
    pthread_cancel(worker->thread);
    pthread_join(worker->thread, &result);
    if (result != PTHREAD_CANCELED || !worker->is_ended) fail("not cancelled", worker->turns);
}

static void cancel(unsigned long threads, char *const signals[])
{
    static struct worker workers[AT_ONCE];
    uint64_t state = 362436069;
    nowhere = open("/dev/null", O_WRONLY);
    for (unsigned long i = 0; i < threads + AT_ONCE; i++) {
        struct worker *worker = &workers[i % AT_ONCE];
        if (i >= AT_ONCE) worker_cancel(worker);
        if (i < threads) worker_start(worker, i + 1);
        unsigned long wanted = worker->turns + random_next(&state) % 64;
        for (int slept = 0; i < threads && worker->turns < wanted && slept < 20; slept++) usleep(50);
        for (char *const *signal = signals; *signal != NULL; signal++)
            if (random_next(&state) % 4 == 0) kill(getpid(), atoi(*signal)); /* to any thread */
        if (i % 64 == 0) alarm(HANG_S);
        free(malloc(draw_size(&state)));
    }
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

static void wait_for(int signal, const char *file)
{
    memset(mine, 1, sizeof mine);
    raise(signal);
    for (int i = 0; access(file, F_OK) != 0; i++) {
        if (i == HANG_S * 100) fail("no file", 0);
        usleep(10000);
    }
    usleep(300000); /* rounds of the background, if there is one */
}

int main(int count, char **arguments)
{
    alarm(HANG_S);
    if (count < 3) return 2;
    long number = atol(arguments[2]);
    struct painting painting = {number, count > 3 ? atoi(arguments[3]) : 0};
    if (strcmp(arguments[1], "paint") == 0) paint_in_threads(&painting);
    else if (strcmp(arguments[1], "forked") == 0) paint_in_a_child(&painting);
    else if (strcmp(arguments[1], "cancel") == 0) cancel((unsigned long)number, arguments + 3);
    else if (strcmp(arguments[1], "wait") == 0 && count > 3) wait_for((int)number, arguments[3]);
    else return 2;
    (void)CALLS;
    return 0;
}
