/* negative_size.c: a packet claims to be longer than its buffer. The size of the rest to clear is negative, which
 * memset takes for a huge number. */
// expect: library=both cause=overflow,out_of_range,wild_read,wild_write grade=likely
#include "../program.h"

struct packet {
    size_t length;
    char bytes[56];
};

PLAINLY static void packet_set(struct packet *packet, size_t length)
{
    packet->length = length;
}

PLAINLY static char *body_of(const struct packet *packet)
{
    char *body = (char *)need(malloc(sizeof packet->bytes));
    memcpy(body, packet->bytes, 8);
    memset(body + packet->length, 0, sizeof packet->bytes - packet->length); /* guilty */
    return body;
}

int main(void)
{
    earlier_owners(sizeof(struct packet));
    struct packet *packet = (struct packet *)need(calloc(1, sizeof *packet));
    packet_set(packet, 40);
    char before = body_of(packet)[0];
    packet_set(packet, 57);
    return body_of(packet)[0] == before ? 4 : 5;
}
