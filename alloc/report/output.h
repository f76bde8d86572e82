/* output.h: the heap's figures as lines of text, to a stream of the program's or to a descriptor. Nothing here allocates. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/text.h"

enum { OUTPUT_LINE_BYTES = 256, AMOUNT_BYTES = 16 };

struct output {
    FILE *stream; /* NULL: bytes collects, for fd, until output_flush */
    int fd, error;
    struct text text;
    char bytes[2 * OUTPUT_LINE_BYTES];
};

/* Begins output to the stream, or with NULL to the descriptor. */
void output_begin(struct output *out, FILE *stream, int fd);

/* As fprintf; at most OUTPUT_LINE_BYTES - 1 bytes. */
__attribute__((format(printf, 2, 3))) void output_print(struct output *out, const char *format, ...);

/* Returns 0, or the errno value of the first write that failed. */
int output_flush(struct output *out);

/* An amount in the unit that people would choose: "512 B", "12.0 MiB". Returns text. */
const char *amount_text(char text[AMOUNT_BYTES], uint64_t bytes);
