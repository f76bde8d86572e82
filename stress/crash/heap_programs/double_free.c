/* double_free.c: a job is freed by the thread that made it, and again by another thread that cancels it. The heap then
 * hands out the block twice; the last thread to write to it does nothing wrong. */
// expect: library=release cause=double_free grade=found
#include "heap_program.h"

struct record {
    struct record *parent;
    uint64_t number;
    char rest[80];
};

enum { BUFFERS = 2000 };

PLAINLY static void finish_job(void *job)
{
    free(job);
}

PLAINLY static void *cancel_job(void *job)
{
    free(job); /* guilty */
    return NULL;
}

PLAINLY static struct record *make_record(void)
{
    static struct record root;
    struct record *record = malloc(sizeof *record);
    if (record == NULL) _exit(3);
    record->parent = &root;
    return record;
}

PLAINLY static void fill_buffer(void)
{
    char *buffer = malloc(sizeof(struct record));
    if (buffer == NULL) _exit(3);
    memset(buffer, 'x', sizeof(struct record));
}

PLAINLY static uint64_t number_of_parent(const struct record *record)
{
    return record->parent->number;
}

int main(void)
{
    void *job = malloc(sizeof(struct record));
    if (job == NULL) _exit(3);
    finish_job(job);
    in_thread(cancel_job, job);
    struct record *record = make_record();
    for (int i = 0; i < BUFFERS; i++) fill_buffer();
    return number_of_parent(record) == 0 ? 4 : 5;
}
