/* rename_record.h: the bug of the libraries in this folder, which programs in other languages load. rename_record()
 * writes past the end of its block, over the first word of the next block, which is free. malloc keeps a link there,
 * and a later malloc follows it. apps_test looks for the mark. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))
#define PLAINLY __attribute__((noinline))

enum {
    RECORD_BYTES = 208,
    RECORDS = 512, /* some of them have a neighbour among them */
    BAD_LINK = 0x123450,
};

struct record {
    uint64_t words[RECORD_BYTES / sizeof(uint64_t)];
};

PLAINLY static void record_set(struct record *record, size_t word, uint64_t value)
{
    volatile uint64_t *words = record->words;
    words[word] = value; /* guilty */
}

/* Returns whether there was a record with a free neighbour. */
PLAINLY static int rename_record(void)
{
    static struct record *records[RECORDS];
    for (size_t i = 0; i < RECORDS; i++) {
        records[i] = malloc(sizeof *records[i]);
        if (records[i] == NULL) return 0;
        record_set(records[i], 0, i);
    }
    for (size_t i = 0; i < RECORDS; i++)
        for (size_t k = 0; k < RECORDS; k++) {
            if (records[k] != records[i] + 1) continue;
            free(records[k]);
            record_set(records[i], RECORD_BYTES / sizeof(uint64_t), BAD_LINK);
            return 1;
        }
    return 0;
}

PLAINLY static void read_records(void)
{
    for (int i = 0; i < 4; i++) {
        struct record *record = malloc(sizeof *record);
        if (record != NULL) record_set(record, 0, 1);
    }
}
