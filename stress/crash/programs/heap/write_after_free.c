/* write_after_free.c: a timer counts in a job that was freed. Nothing crashes there: the validate library finds it when
 * the block leaves the quarantine, in a call that does nothing wrong. */
// expect: library=validate cause=use_after_free grade=found
#include "../program.h"

struct job {
    uint64_t number;
    uint64_t ticks;
    char rest[48];
};

PLAINLY static struct job *job_make(uint64_t number)
{
    struct job *job = (struct job *)need(calloc(1, sizeof *job));
    job->number = number;
    return job;
}

PLAINLY static void job_end(struct job *job)
{
    free(job); /* also guilty */
}

PLAINLY static void tick(struct job *job)
{
    job->ticks++; /* guilty */
}

PLAINLY static void other_work(void)
{
    enum { ROUNDS = 5000 };
    for (int i = 0; i < ROUNDS; i++) {
        char *text = copy_text("work that has nothing to do with jobs, in blocks of the same size");
        free(text);
    }
}

int main(void)
{
    earlier_owners(sizeof(struct job));
    struct job *first = job_make(1), *second = job_make(2);
    tick(first);
    tick(second);
    job_end(first);
    tick(second);
    tick(first);
    other_work();
    job_end(second);
    return 4;
}
