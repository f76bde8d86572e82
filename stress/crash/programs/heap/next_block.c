/* next_block.c: a message is written past the end of its block, into the live block behind it, whose owner follows a
 * pointer that it had rightly stored there. */
// expect: library=release cause=overflow grade=found
// build: -O2
#include "../program.h"

enum { BLOCKS = 64, SIZE = 96 };

struct job {
    const char *name;
    uint64_t number;
    char rest[SIZE - 16];
};

PLAINLY static struct job *job_make(uint64_t number)
{
    struct job *job = (struct job *)need(malloc(sizeof *job));
    job->name = "a job";
    job->number = number;
    return job;
}

PLAINLY static void job_rename(struct job *job, const char *name)
{
    job->name = name;
}

PLAINLY static void put_message(char *to, const char *text, size_t size_bytes)
{
    memcpy(to, text, size_bytes); /* guilty */
}

PLAINLY static size_t names_of(struct job *const *jobs, size_t count)
{
    size_t letters = 0;
    for (size_t i = 0; i < count; i++) letters += jobs[i]->name[0] == 'a';
    return letters;
}

int main(void)
{
    static char text[SIZE + 8];
    struct job *jobs[BLOCKS];
    memset(text, 'm', sizeof text);
    for (uint64_t i = 0; i < BLOCKS; i++) jobs[i] = job_make(i);
    for (size_t i = 0; i < BLOCKS; i++) job_rename(jobs[i], "another");
    size_t before = names_of(jobs, BLOCKS);
    for (size_t i = 1; i < BLOCKS; i++) {
        if ((char *)jobs[i] != (char *)jobs[i - 1] + SIZE) continue;
        /* That job is done, and its block now belongs to a message. */
        put_message((char *)jobs[i - 1], text, sizeof text);
        jobs[i - 1] = jobs[i];
        earlier_owners(SIZE);
        return names_of(jobs, BLOCKS) == before ? 4 : 5;
    }
    return 3;
}
