/* racy_append.c: two threads append to a log of 64 bytes. Each checks for room before either has written, which a
 * barrier makes certain. The second one to write then writes past the end, into the link of a free neighbour. */
// expect: library=release cause=overflow grade=found
#include "heap_program.h"

struct log {
    char *text;
    size_t used, room;
    pthread_barrier_t both_have_looked;
    pthread_mutex_t one_writes;
};

static const char words[41] = "forty bytes of text that is not a pointer";

PLAINLY static void append(struct log *log)
{
    if (log->room - log->used < sizeof words) return;
    pthread_barrier_wait(&log->both_have_looked);
    pthread_mutex_lock(&log->one_writes);
    memcpy(log->text + log->used, words, sizeof words); /* guilty */
    log->used += sizeof words;
    pthread_mutex_unlock(&log->one_writes);
}

static void *append_in_thread(void *log)
{
    append(log);
    return NULL;
}

int main(void)
{
    struct pair pair = neighbours(64);
    struct log log = {.text = pair.low, .room = 64};
    pthread_t threads[2];
    pthread_barrier_init(&log.both_have_looked, NULL, 2);
    pthread_mutex_init(&log.one_writes, NULL);
    free(pair.high);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, append_in_thread, &log) != 0) _exit(3);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    allocate_some(64);
    return 4;
}
