/* write_after_free.c: one thread closes a session and frees it while another thread still counts in it. */
// expect: library=release cause=use_after_free grade=found
#include "heap_program.h"

struct session {
    uint64_t requests;
    char name[40];
};

static pthread_barrier_t step;

PLAINLY static void count_request(struct session *session)
{
    session->requests = 0x123456789; /* guilty */
}

static void *serve(void *argument)
{
    struct session *session = argument;
    session->requests = 0;
    pthread_barrier_wait(&step); /* in use */
    pthread_barrier_wait(&step); /* the session is closed, and this thread does not know it */
    count_request(session);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&step, NULL, 2);
    struct session *session = malloc(sizeof *session);
    if (session == NULL || pthread_create(&thread, NULL, serve, session) != 0) _exit(3);
    pthread_barrier_wait(&step);
    free(session);
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    allocate_some(sizeof(struct session));
    return 4;
}
