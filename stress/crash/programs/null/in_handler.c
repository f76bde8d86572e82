/* in_handler.c: a signal handler looks at the current job after the job has ended. */
// expect: library=both cause=null_stored grade=found
#include <signal.h>

#include "../program.h"

struct job {
    volatile uint64_t progress;
    char rest[72];
};

static struct job *current;
static volatile uint64_t shown;

PLAINLY static void show_progress(void)
{
    shown = current->progress;
}

static void on_signal(int number)
{
    (void)number;
    show_progress();
}

PLAINLY static void job_begin(void)
{
    current = (struct job *)need(calloc(1, sizeof *current));
}

PLAINLY static void job_end(void)
{
    free(current);
    current = NULL; /* guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct job));
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 3; i++) {
        job_begin();
        raise(SIGUSR1);
        job_end();
    }
    raise(SIGUSR1);
    return 4;
}
