/* record_write.c: see record_write.h. */
#include "crash/record_write.h"

#include <string.h>

#include "base/bits.h"

/* Room that record_finish needs: the field `cut` and the end. */
enum { TAIL_BYTES = RECORD_FIELD_HEAD_BYTES + 8 + RECORD_FIELD_HEAD_BYTES + 4 };

static void put_32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static void put_64(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static size_t room(const struct record_writer *writer)
{
    return writer->room_bytes - TAIL_BYTES - writer->used_bytes;
}

size_t record_room(const struct record_writer *writer)
{
    return writer->field_at == 0 ? 0 : room(writer);
}

unsigned char *record_here(struct record_writer *writer)
{
    return writer->bytes + writer->used_bytes;
}

void record_took(struct record_writer *writer, size_t size_bytes)
{
    if (size_bytes > record_room(writer)) {
        size_bytes = record_room(writer);
        record_cut(writer, writer->field);
    }
    writer->used_bytes += size_bytes;
}

void record_begin(struct record_writer *writer, void *bytes, size_t room_bytes)
{
    *writer = (struct record_writer){.bytes = bytes, .room_bytes = room_bytes};
    memcpy(writer->bytes, RECORD_MAGIC, RECORD_MAGIC_BYTES);
    put_32(writer->bytes + RECORD_MAGIC_BYTES, RECORD_VERSION);
    writer->used_bytes = RECORD_HEAD_BYTES;
}

/* A field without room for its head is not opened: field_at is 0 then, and what is added to it is dropped. */
void record_open(struct record_writer *writer, enum record_field field)
{
    writer->field = field;
    writer->field_at = 0;
    if (room(writer) < RECORD_FIELD_HEAD_BYTES) {
        record_cut(writer, field);
        return;
    }
    writer->field_at = writer->used_bytes;
    put_32(record_here(writer), (uint32_t)field);
    writer->used_bytes += RECORD_FIELD_HEAD_BYTES;
}

bool record_add(struct record_writer *writer, const void *bytes, size_t size_bytes)
{
    if (size_bytes > record_room(writer)) {
        record_cut(writer, writer->field);
        return false;
    }
    if (size_bytes > 0) memcpy(record_here(writer), bytes, size_bytes);
    writer->used_bytes += size_bytes;
    return true;
}

bool record_add_number(struct record_writer *writer, uint64_t number)
{
    unsigned char bytes[8];
    put_64(bytes, number);
    return record_add(writer, bytes, sizeof bytes);
}

void record_close(struct record_writer *writer)
{
    if (writer->field_at == 0) return;
    size_t length = writer->used_bytes - writer->field_at - RECORD_FIELD_HEAD_BYTES;
    put_32(writer->bytes + writer->field_at + 4, (uint32_t)length);
    writer->field_at = 0;
}

void record_drop(struct record_writer *writer)
{
    if (writer->field_at == 0) return;
    writer->used_bytes = writer->field_at;
    writer->field_at = 0;
    record_cut(writer, writer->field);
}

/* Once a field of an id was cut, later ones of that id are dropped too, even if they fit. */
void record_close_whole(struct record_writer *writer)
{
    if ((writer->cut >> writer->field & 1) != 0) {
        record_drop(writer);
    } else {
        record_close(writer);
    }
}

void record_number(struct record_writer *writer, enum record_field field, uint64_t number)
{
    record_open(writer, field);
    record_add_number(writer, number);
    record_close_whole(writer);
}

void record_bytes(struct record_writer *writer, enum record_field field, const void *bytes, size_t size_bytes)
{
    record_open(writer, field);
    size_t fits = record_room(writer);
    if (size_bytes > fits) record_cut(writer, field);
    record_add(writer, bytes, size_bytes < fits ? size_bytes : fits);
    record_close(writer);
}

void record_text(struct record_writer *writer, enum record_field field, const char *text)
{
    record_bytes(writer, field, text, strlen(text));
}

void record_cut(struct record_writer *writer, enum record_field field)
{
    writer->cut |= 1ull << field;
}

size_t record_finish(struct record_writer *writer)
{
    record_close(writer);
    unsigned char *at = record_here(writer);
    if (writer->cut != 0) {
        put_32(at, RECORD_cut);
        put_32(at + 4, 8);
        put_64(at + RECORD_FIELD_HEAD_BYTES, writer->cut);
        at += RECORD_FIELD_HEAD_BYTES + 8;
    }
    put_32(at, RECORD_END);
    put_32(at + 4, 4);
    at += RECORD_FIELD_HEAD_BYTES;
    put_32(at, bits_crc(0, writer->bytes, (size_t)(at - writer->bytes)));
    return (size_t)(at + 4 - writer->bytes);
}
