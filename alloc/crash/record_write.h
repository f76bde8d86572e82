/* record_write.h: puts fields into a crash record, in memory of the caller's. Fit for a signal handler. What has no
 * room is cut, and the record's last field but one says of which fields. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hakmem/record.h"

struct record_writer {
    unsigned char *bytes;
    size_t room_bytes; /* at most RECORD_BYTES_MAX, with what the end takes */
    size_t used_bytes;
    uint64_t cut;      /* a bit a field */
    size_t field_at;   /* where the open field begins; fields do not nest */
    enum record_field field;
};

/* room_bytes is at least 256. */
void record_begin(struct record_writer *writer, void *bytes, size_t room_bytes);

/* Ends the record; returns how long it is. */
size_t record_finish(struct record_writer *writer);

/* A field of several parts: open, add, close. What does not fit is left out; record_close_whole drops a field
 * that was cut, for those that are of no use then. */
void record_open(struct record_writer *writer, enum record_field field);
bool record_add(struct record_writer *writer, const void *bytes, size_t size_bytes);
bool record_add_number(struct record_writer *writer, uint64_t number);
void record_close(struct record_writer *writer);
void record_close_whole(struct record_writer *writer);

/* Drops the open field, if there is one, and marks it as cut. */
void record_drop(struct record_writer *writer);

/* How much the open field may still take, and where; for those who write there themselves: record_took. */
size_t record_room(const struct record_writer *writer);
unsigned char *record_here(struct record_writer *writer);
void record_took(struct record_writer *writer, size_t size_bytes);

void record_number(struct record_writer *writer, enum record_field field, uint64_t number);
void record_bytes(struct record_writer *writer, enum record_field field, const void *bytes, size_t size_bytes);
void record_text(struct record_writer *writer, enum record_field field, const char *text);

/* Marks a field as cut. */
void record_cut(struct record_writer *writer, enum record_field field);

/* CRC-32 as in zip and gzip. */
uint32_t record_crc(const void *bytes, size_t size_bytes);
