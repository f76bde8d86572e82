/* forked_child.c: a server's child clears its own queue, and then counts its items. */
// expect: library=both cause=null_stored grade=found
// build: -O0 -fomit-frame-pointer
#include <sys/wait.h>

#include "../program.h"

struct worker {
    uint64_t *queue;
    char name[56];
};

PLAINLY static void start_queue(struct worker *worker)
{
    worker->queue = (uint64_t *)need(calloc(8, sizeof *worker->queue));
}

PLAINLY static void stop_queue(struct worker *worker)
{
    free(worker->queue);
    worker->queue = NULL; /* guilty */
}

PLAINLY static uint64_t queued(const struct worker *worker)
{
    return worker->queue[0];
}

PLAINLY static int work(struct worker *worker)
{
    uint64_t before = queued(worker);
    stop_queue(worker);
    return queued(worker) == before ? 4 : 5;
}

int main(void)
{
    earlier_owners(sizeof(struct worker));
    struct worker *worker = (struct worker *)need(calloc(1, sizeof *worker));
    start_queue(worker);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) _exit(i == 1 ? work(worker) : 0);
        int status;
        if (waitpid(child, &status, 0) != child) return 3;
    }
    return queued(worker) == 0 ? 0 : 5;
}
