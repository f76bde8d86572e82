/* record_write.h: writes the fields of a crash record into the caller's memory. Async-signal-safe; one thread at a
 * time. Fields without room are shortened or left out; the field `cut`, just before the end, tells which. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hakmem/record.h"

struct record_writer {
    unsigned char *bytes;
    size_t room_bytes; /* at most RECORD_BYTES_MAX, the end included */
    size_t used_bytes;
    uint64_t cut;      /* a bit for each field id */
    size_t field_at;   /* where the open field begins; 0: none. Fields do not nest */
    enum record_field field;
};

/* room_bytes is at least 256. */
void record_begin(struct record_writer *writer, void *bytes, size_t room_bytes);

/* Ends the record; returns its length. */
size_t record_finish(struct record_writer *writer);

/* For a field of several parts: open it, add the parts, close it. Parts that do not fit are left out.
 * record_close_whole drops the field if that happened, for fields that are useless then. */
void record_open(struct record_writer *writer, enum record_field field);
bool record_add(struct record_writer *writer, const void *bytes, size_t size_bytes);
bool record_add_number(struct record_writer *writer, uint64_t number);
void record_close(struct record_writer *writer);
void record_close_whole(struct record_writer *writer);

/* Drops the open field, if there is one, and marks it as cut. */
void record_drop(struct record_writer *writer);

/* To write into the open field without a copy: how many bytes it has room for, and where; then tell record_took how
 * many were written. */
size_t record_room(const struct record_writer *writer);
unsigned char *record_here(struct record_writer *writer);
void record_took(struct record_writer *writer, size_t size_bytes);

void record_number(struct record_writer *writer, enum record_field field, uint64_t number);
void record_bytes(struct record_writer *writer, enum record_field field, const void *bytes, size_t size_bytes);
void record_text(struct record_writer *writer, enum record_field field, const char *text);

/* Marks a field as cut, in the field `cut`. */
void record_cut(struct record_writer *writer, enum record_field field);
