/* thread_at_start.c: a worker is started with a task that has just been withdrawn; its first step crashes. */
// expect: library=both cause=null_stored grade=found
#include "../program.h"

struct task {
    uint64_t number;
    uint64_t *result;
    char rest[64];
};

PLAINLY static void take_back(struct task *task)
{
    task->result = NULL; /* guilty */
}

static void *work(void *argument)
{
    struct task *task = (struct task *)argument;
    *task->result = task->number;
    return NULL;
}

int main(void)
{
    static uint64_t results[3];
    struct task *tasks[3];
    earlier_owners(sizeof(struct task));
    for (int i = 0; i < 3; i++) {
        tasks[i] = (struct task *)need(calloc(1, sizeof *tasks[i]));
        tasks[i]->result = &results[i];
    }
    in_thread(work, tasks[0]);
    take_back(tasks[0]);
    take_back(tasks[2]);
    in_thread(work, tasks[1]);
    in_thread(work, tasks[2]);
    return 4;
}
