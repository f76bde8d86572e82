/* profile_file.c: see profile_file.h. */
#include "profile/profile_file.h"

#include <string.h>

#include "base/bits.h"
#include "os/os.h"

/* --- a gzip file ------------------------------------------------------------------------------------------ */

enum { BLOCK_BYTES = 32768, HEAD_BYTES = 5 };

/* The file that is being written. */
static struct {
    int fd, error;
    uint32_t crc, size_bytes, used;
    unsigned char bytes[HEAD_BYTES + BLOCK_BYTES]; /* a stored block with its head */
} file;

static void file_write(const void *bytes, size_t count)
{
    if (file.error == 0) file.error = os_write_all(file.fd, bytes, count);
}

static void block_end(bool is_last)
{
    uint32_t count = file.used;
    file.bytes[0] = is_last ? 1 : 0;
    for (int i = 0; i < 2; i++) {
        file.bytes[1 + i] = (unsigned char)(count >> 8 * i);
        file.bytes[3 + i] = (unsigned char)(~count >> 8 * i);
    }
    file.crc = bits_crc(file.crc, file.bytes + HEAD_BYTES, count);
    file.size_bytes += count;
    file_write(file.bytes, HEAD_BYTES + count);
    file.used = 0;
}

static void put(const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        size_t part = BLOCK_BYTES - file.used < count ? BLOCK_BYTES - file.used : count;
        memcpy(file.bytes + HEAD_BYTES + file.used, at, part);
        file.used += (uint32_t)part;
        at += part;
        count -= part;
        if (file.used == BLOCK_BYTES) block_end(false);
    }
}

void profile_file_begin(int fd)
{
    static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    file.fd = fd;
    file.error = 0;
    file.crc = file.size_bytes = file.used = 0;
    file_write(head, sizeof head);
}

int profile_file_end(void)
{
    unsigned char tail[8];
    block_end(true);
    for (int i = 0; i < 4; i++) {
        tail[i] = (unsigned char)(file.crc >> 8 * i);
        tail[4 + i] = (unsigned char)(file.size_bytes >> 8 * i);
    }
    file_write(tail, sizeof tail);
    return file.error;
}

/* --- protobuf messages ---------------------------------------------------------------------------------- */

static size_t varint(unsigned char *at, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) at[length++] = (unsigned char)(value | 0x80);
    at[length++] = (unsigned char)value;
    return length;
}

void message_add_raw(struct message *message, uint64_t value)
{
    message->length += varint(message->bytes + message->length, value);
}

void message_add(struct message *message, uint32_t field, uint64_t value)
{
    message_add_raw(message, field << 3);
    message_add_raw(message, value);
}

void profile_put_bytes(uint32_t field, const void *bytes, size_t count)
{
    struct message head = {0};
    message_add_raw(&head, field << 3 | 2);
    message_add_raw(&head, count);
    put(head.bytes, head.length);
    put(bytes, count);
}

void profile_put_message(uint32_t field, const struct message *message)
{
    profile_put_bytes(field, message->bytes, message->length);
}

void profile_put_number(uint32_t field, uint64_t value)
{
    struct message head = {0};
    message_add(&head, field, value);
    put(head.bytes, head.length);
}
