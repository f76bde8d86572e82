/* wild_index.c: a message's index is used unchecked, and reads far outside of the table. */
// expect: library=both cause=out_of_range,wild_read grade=found
#include "../program.h"

struct message {
    uint32_t kind, index;
    char rest[40];
};

struct table {
    size_t count;
    uint64_t *values;
};

PLAINLY static void decode(struct message *message, const unsigned char *bytes)
{
    memcpy(&message->kind, bytes, 4);
    memcpy(&message->index, bytes + 4, 4); /* also guilty */
}

PLAINLY static uint64_t value_for(const struct table *table, const struct message *message)
{
    return table->values[message->index]; /* guilty */
}

int main(void)
{
    static const unsigned char good[8] = {1, 0, 0, 0, 2}, bad[8] = {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xef};
    earlier_owners(sizeof(struct message));
    struct table table = {32, (uint64_t *)need(calloc(32, sizeof(uint64_t)))};
    struct message *message = (struct message *)need(malloc(sizeof *message));
    decode(message, good);
    uint64_t before = value_for(&table, message);
    decode(message, bad);
    return value_for(&table, message) == before ? 4 : 5;
}
