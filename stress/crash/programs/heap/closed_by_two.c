/* closed_by_two.c: two threads see at the same time that a session is over, and both end it. Which block the crash
 * hits is a matter of chance, as is whether it comes at all when the program runs again. With the validate library the second
 * thread may free the bytes of a freed session. */
// expect: library=release cause=double_free grade=found
// expect: library=validate cause=double_free,bad_free grade=found seconds=10
#include "../program.h"

enum { SESSIONS = 60, OTHERS = 4 };

struct session {
    char *user;
    int is_over;
    struct session *next;
    uint64_t bytes[2];
};

static struct session *volatile session;
static pthread_barrier_t barrier;

PLAINLY static void session_end(struct session *of)
{
    if (of->is_over) return;
    usleep(300);
    of->is_over = 1;
    free(of->user); /* guilty */
    free(of); /* also guilty */
}

static void *end_sessions(void *unused)
{
    for (int i = 0; i < SESSIONS; i++) {
        pthread_barrier_wait(&barrier);
        session_end(session);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

PLAINLY static struct session *session_begin(struct session *next)
{
    struct session *begun = (struct session *)need(calloc(1, sizeof *begun));
    begun->user = copy_text("the name of its user");
    begun->next = next;
    return begun;
}

int main(void)
{
    pthread_t threads[2];
    struct session *kept = NULL;
    size_t letters = 0;
    if (pthread_barrier_init(&barrier, NULL, 3) != 0) return 3;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, end_sessions, NULL) != 0) return 3;
    for (int i = 0; i < SESSIONS; i++) {
        session = session_begin(NULL);
        for (int other = 0; other < OTHERS; other++) kept = session_begin(kept);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (; kept != NULL; kept = kept->next) letters += strlen(kept->user);
    return letters > 0 ? 4 : 5;
}
