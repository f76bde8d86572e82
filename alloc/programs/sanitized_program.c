/* sanitized_program.c: a program for trees with a sanitizer. It uses blocks of hak_malloc correctly or wrongly;
 * argument 1 names the case. programs/sanitized_check checks the outcome. Exit status 0: it reached its end; 2: bad
 * argument, or it lacks something that it needs.
 *
 * More than 400 lines: one function for each way to use a block, and the table that names them. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hakmem/hakmem.h"

enum { SMALL = 100, RUN = 100 * 1000, HUGE = (3 << 20) + 100 };

static void give_up(const char *why)
{
    fprintf(stderr, "sanitized_program: %s\n", why);
    _exit(2);
}

static char *checked(void *block)
{
    if (block == NULL) give_up("no memory");
    return block;
}

/* Prints the block's address, for the check. */
static char *volatile *told(char *block)
{
    static char *volatile kept;
    kept = block;
    printf("block %p thread %d\n", (void *)block, (int)gettid());
    fflush(stdout);
    return &kept;
}

static volatile char sink;

static void *in_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, body, argument) != 0) give_up("no thread");
    pthread_join(thread, &result);
    return result;
}

/* --- one byte too far ------------------------------------------------------------------------------------- */

static void behind(char *block, size_t size)
{
    (*told(block))[size] = 1;
}
static void small_behind(void)
{
    behind(checked(hak_malloc(SMALL)), SMALL);
}
static void run_behind(void)
{
    behind(checked(hak_malloc(RUN)), RUN);
}
static void huge_behind(void)
{
    behind(checked(hak_malloc(HUGE)), HUGE);
}
static void calloc_behind(void)
{
    behind(checked(hak_calloc(1, SMALL)), SMALL);
}
static void aligned_behind(void)
{
    behind(checked(hak_aligned_alloc(256, SMALL)), SMALL);
}
static void shrunk_behind(void)
{
    behind(checked(hak_realloc(checked(hak_malloc(SMALL)), SMALL - 20)), SMALL - 20);
}
static void grown_behind(void)
{
    behind(checked(hak_realloc(checked(hak_malloc(SMALL)), 3 * RUN)), 3 * RUN);
}
static void run_shrunk_behind(void)
{
    behind(checked(hak_realloc(checked(hak_malloc(RUN)), RUN / 2)), RUN / 2);
}
static void before(void)
{
    (*told(checked(hak_malloc(SMALL))))[-1] = 1;
}

/* --- freed -------------------------------------------------------------------------------------------------- */

static void *allocate(void *size)
{
    return (void *)*told(checked(hak_malloc((size_t)size)));
}

static void *release(void *block)
{
    printf("freed by thread %d\n", (int)gettid());
    fflush(stdout);
    hak_free(block);
    return NULL;
}

static void use_freed(size_t size)
{
    char *block = in_thread(allocate, (void *)size);
    in_thread(release, block);
    sink = ((volatile char *)block)[size / 2];
}
static void small_freed(void)
{
    use_freed(SMALL);
}
static void run_freed(void)
{
    use_freed(RUN);
}
static void huge_freed(void)
{
    use_freed(HUGE);
}

static void twice(void)
{
    char *volatile block = *told(checked(hak_malloc(SMALL)));
    hak_free(block);
    hak_free(block);
}

/* --- right -------------------------------------------------------------------------------------------------- */

/* A block of every size may be used to its last byte for its whole life, and then also the bytes that usable_size
 * reports. */
static void right(void)
{
    static const size_t sizes[] = {0, 1, 8, 16, 17, SMALL, 1024, 5000, 32768, 40000, RUN, 2 << 20, HUGE, 80 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = checked(hak_malloc(sizes[i]));
        memset(block, 1, sizes[i]);
        memset(block, 2, hak_malloc_usable_size(block));
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            block = checked(hak_realloc(block, sizes[j] + 1));
            memset(block, 3, sizes[j] + 1);
            char *zeros = checked(hak_calloc(1, sizes[j] + 3));
            if (zeros[0] != 0 || memcmp(zeros, zeros + 1, sizes[j] + 2) != 0) give_up("calloc's block is not zero");
            hak_free(zeros);
        }
        hak_free(block);
    }
}

/* Addresses that the heap has unmapped may be mapped by others, and have no poison. */
static void remapped(void)
{
    char *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = checked(hak_malloc(i % 2 == 0 ? RUN : HUGE));
    for (int i = 0; i < 64; i++) hak_free(blocks[i]);
    hak_purge();
    for (int i = 0; i < 64; i++) {
        size_t size = i % 2 == 0 ? RUN : HUGE;
        char *page = (char *)((size_t)blocks[i] & ~(size_t)4095);
        char *start =
            mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (start != page) continue;
        memset(start, 1, size);
        sink = 1;
        munmap(start, size);
    }
    if (sink != 1) give_up("no address was free again");
}

/* --- LeakSanitizer ------------------------------------------------------------------------------------------- */

/* Allocates a block of libc's. Only one word of ours points to it, and no register and no stack. */
static void *hide(void *words)
{
    void **each = words;
    each[5] = malloc(77);
    if (each[5] == NULL) give_up("no memory");
    memset(each[5], 1, 77);
    return NULL;
}

static void **holders[3];

static void hold(void)
{
    static const size_t sizes[] = {SMALL, RUN, HUGE};
    for (int i = 0; i < 3; i++) {
        holders[i] = (void **)(void *)checked(hak_malloc(sizes[i]));
        in_thread(hide, holders[i]);
    }
}

/* A pointer in a freed block does not keep the memory that it points to. */
static void lose(void)
{
    hold();
    for (int i = 0; i < 3; i++) hak_free(holders[i]);
}

/* --- ThreadSanitizer ------------------------------------------------------------------------------------------ */

/* Orders steps in time only; the sanitizer sees no order. */
static _Atomic(int) step;

static void wait_for(int wanted, memory_order order)
{
    while (atomic_load_explicit(&step, order) != wanted) sched_yield();
}

static void *write_late(void *block)
{
    wait_for(1, memory_order_relaxed);
    ((volatile char *)block)[SMALL / 2] = 1; /* malloc and free keep no links in this part */
    return NULL;
}

static void *write_in_time(void *block)
{
    ((volatile char *)block)[SMALL / 2] = 1;
    atomic_store_explicit(&step, 1, memory_order_release);
    return NULL;
}

static pthread_t started(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) give_up("no thread");
    return thread;
}

/* One thread frees the block, and another one writes to it afterwards. */
static void race_with_free(void)
{
    char *block = *told(checked(hak_malloc(SMALL)));
    pthread_t other = started(write_late, block);
    hak_free(block);
    atomic_store_explicit(&step, 1, memory_order_relaxed);
    pthread_join(other, NULL);
}

static void *free_it(void *block)
{
    hak_free(block);
    return NULL;
}

/* The writer has seen that the block was freed, but not that it was handed out again since. */
static void *write_freed(void *block)
{
    in_thread(free_it, block);
    atomic_store_explicit(&step, 1, memory_order_relaxed);
    wait_for(2, memory_order_relaxed);
    ((volatile char *)block)[SMALL / 2] = 1;
    return NULL;
}

static void race_with_reuse(void)
{
    char *block = *told(checked(hak_malloc(SMALL))), *again = NULL;
    pthread_t other = started(write_freed, block);
    wait_for(1, memory_order_relaxed);
    /* Until the owner drains it. */
    for (int i = 0; i < 100000 && again != block; i++) again = checked(hak_malloc(SMALL));
    if (again != block) give_up("the block was not handed out again");
    atomic_store_explicit(&step, 2, memory_order_relaxed);
    pthread_join(other, NULL);
}

static void no_race(void)
{
    char *block = *told(checked(hak_malloc(SMALL)));
    pthread_t other = started(write_in_time, block);
    wait_for(1, memory_order_acquire);
    hak_free(block);
    pthread_join(other, NULL);
    memset(checked(hak_malloc(SMALL)), 1, SMALL);
}

/* Threads exchange blocks of all kinds, and only the heap orders them. */
static void *go_round(void *unused)
{
    enum { KEPT = 256 };
    static _Atomic(char *) slots[KEPT];
    for (unsigned i = 0; i < 20000; i++) {
        size_t size = i % 97 == 0 ? RUN : 1 + i * 37 % 3000;
        char *mine = checked(hak_malloc(size));
        memset(mine, 1, size);
        char *others = atomic_exchange_explicit(&slots[i * 31 % KEPT], mine, memory_order_acq_rel);
        if (others != NULL) *others = 2;
        hak_free(others);
    }
    return unused;
}

static void hand_over(void)
{
    pthread_t threads[4];
    for (int round = 0; round < 2; round++) { /* the second four adopt the heaps of the first */
        for (int i = 0; i < 4; i++) threads[i] = started(go_round, NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
}

/* --- MemorySanitizer ------------------------------------------------------------------------------------------- */

static void branch_on(const char *block, size_t at)
{
    told((char *)(size_t)block);
    if (((const volatile char *)block)[at] != 0) puts("not zero");
}

static char *reused(size_t size) /* a block that was used before */
{
    char *block = checked(hak_malloc(size));
    memset(block, 0, size);
    hak_free(block);
    return checked(hak_malloc(size));
}

static char *half_written(size_t size, size_t grown)
{
    char *block = reused(size);
    memset(block, 0, size / 2);
    return checked(hak_realloc(block, grown));
}

static void read_small(void)
{
    branch_on(reused(SMALL), SMALL / 2);
}
static void read_run(void)
{
    branch_on(reused(RUN), RUN / 2);
}
static void read_huge(void)
{
    branch_on(reused(HUGE), HUGE / 2);
}
static void read_moved(void)
{
    branch_on(half_written(SMALL, RUN), SMALL - 1);
}
static void read_moved_end(void)
{
    branch_on(half_written(SMALL, RUN), RUN - 1);
}
static void read_grown(void)
{
    branch_on(half_written(SMALL, SMALL + 10), SMALL + 5);
}
static void read_huge_grown(void)
{
    branch_on(half_written(HUGE, 4 * HUGE), HUGE - 1);
}

static void read_written(void)
{
    static const size_t sizes[] = {SMALL, RUN, HUGE};
    for (int i = 0; i < 3; i++) {
        branch_on(checked(hak_calloc(1, sizes[i])), sizes[i] - 1); /* fresh memory of the system */
        hak_free(reused(sizes[i]));
        char *zeros = checked(hak_calloc(1, sizes[i]));
        branch_on(zeros, sizes[i] - 1);
        zeros = checked(hak_realloc(zeros, sizes[i] * 3));
        branch_on(zeros, sizes[i] - 1);
        hak_free(zeros);
        char *block = half_written(sizes[i], sizes[i] * 3);
        branch_on(block, sizes[i] / 2 - 1);
        hak_free(block);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(small_behind),   CASE(run_behind),     CASE(huge_behind),     CASE(calloc_behind),
    CASE(aligned_behind), CASE(shrunk_behind),  CASE(grown_behind),    CASE(run_shrunk_behind),
    CASE(before),         CASE(small_freed),    CASE(run_freed),       CASE(huge_freed),
    CASE(twice),          CASE(right),          CASE(remapped),        CASE(hold),
    CASE(lose),           CASE(race_with_free), CASE(race_with_reuse), CASE(no_race),
    CASE(hand_over),      CASE(read_small),     CASE(read_run),        CASE(read_huge),
    CASE(read_moved),     CASE(read_moved_end), CASE(read_grown),      CASE(read_huge_grown),
    CASE(read_written),
#undef CASE
};

int main(int count, char **arguments)
{
    for (size_t i = 0; count == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, arguments[1]) != 0) continue;
        cases[i].run();
        return 0;
    }
    fprintf(stderr, "sanitized_program: name one case:");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) fprintf(stderr, " %s", cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
