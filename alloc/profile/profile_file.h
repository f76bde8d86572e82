/* profile_file.h: a protobuf message in a gzip file of stored blocks (RFC 1952, RFC 1951), written as it is made. One file
 * at a time: the caller holds the DUMP lock. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "profile/sites.h"

/* A message inside of the file's. The longest is a sample: PROFILE_FRAMES + 4 numbers. */
struct message {
    size_t length;
    unsigned char bytes[(PROFILE_FRAMES + 12) * 10];
};

/* Add a number to a message: by itself, or as a field. The message has room. */
void message_add_raw(struct message *message, uint64_t value);
void message_add(struct message *message, uint32_t field, uint64_t value);

void profile_file_begin(int fd);

/* Write a field of the file's message: a string, a message, a number. */
void profile_put_bytes(uint32_t field, const void *bytes, size_t count);
void profile_put_message(uint32_t field, const struct message *message);
void profile_put_number(uint32_t field, uint64_t value);

/* Returns 0, or the errno value of the first write that failed. Does not close the descriptor. */
int profile_file_end(void);
