/* two_threads.c: two threads write to a log that is closed, and crash at the same time. */
// expect: library=both cause=null_stored grade=found
#include "../program.h"

struct log {
    uint64_t *lines;
    char rest[56];
};

static pthread_barrier_t together;

PLAINLY static void log_open(struct log *log)
{
    log->lines = (uint64_t *)need(calloc(16, sizeof *log->lines));
}

PLAINLY static void log_close(struct log *log)
{
    free(log->lines);
    log->lines = NULL; /* guilty */
}

PLAINLY static void log_write(struct log *log)
{
    log->lines[0]++;
}

static void *work(void *argument)
{
    struct log *log = (struct log *)argument;
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    log_write(log);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    earlier_owners(sizeof(struct log));
    pthread_barrier_init(&together, NULL, 3);
    struct log *log = (struct log *)need(calloc(1, sizeof *log));
    log_open(log);
    log_write(log);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work, log) != 0) return 3;
    pthread_barrier_wait(&together);
    log_close(log);
    pthread_barrier_wait(&together);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 4;
}
