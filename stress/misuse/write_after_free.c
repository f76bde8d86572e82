/* write_after_free.c: SIZE OFFSET HOW: writes to a freed block. HOW says what then happens until it is found. */
#include "misuse.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

static char *block;
static long offset;

static void *write_in_thread(void *unused)
{
    (void)unused;
    free(allocate(10)); /* gives the thread a heap */
    free(block);
    opaque(block)[offset] ^= 1;
    return NULL;
}

static void *free_in_thread(void *unused)
{
    (void)unused;
    free(block); /* by a thread that never allocates */
    return NULL;
}

static pthread_barrier_t barrier;

static void *free_and_sleep(void *unused)
{
    free(block);
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return unused;
}

static void run_sleeper(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, free_and_sleep, NULL) != 0) give_up("pthread_create failed");
    pthread_barrier_wait(&barrier);
}

static void run_thread(void *(*start)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, start, NULL) != 0) give_up("pthread_create failed");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    size_t size = size_argument(argc, argv, 1);
    offset = number(argc, argv, 2);
    const char *how = argument(argc, argv, 3);
    block = allocate(size);
    expect_offset(block, offset, size);
    if (strcmp(how, "thread-end") == 0) {
        run_thread(write_in_thread);
        return went_on();
    }
    if (strcmp(how, "ended") == 0) run_thread(free_in_thread);
    else if (strcmp(how, "sleeper") == 0) run_sleeper();
    else free(block);
    opaque(block)[offset] ^= 1;
    if (strcmp(how, "frees") == 0) {
        for (int i = 0; i < 2000; i++) free(allocate(100));
    } else if (strcmp(how, "exit") == 0 || strcmp(how, "sleeper") == 0) {
        exit(0);
    } else if (strcmp(how, "sweep") == 0) { /* level 3: found on a slow path, after few frees */
        for (size_t other = 2000; other < 9000; other += 1000) allocate(other);
    } else {
        malloc_trim(0);
    }
    return went_on();
}
