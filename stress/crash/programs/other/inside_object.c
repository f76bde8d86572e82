/* inside_object.c: one number too many goes into a ring, and overwrites the count behind it; that count then leads a
 * read far away. */
// expect: library=both cause=out_of_range,overflow,wild_read grade=likely
#include "../program.h"

enum { ROOM = 12 };

struct ring {
    uint64_t values[ROOM];
    uint64_t count;
    char rest[24];
};

PLAINLY static void ring_set(struct ring *ring, uint64_t count)
{
    ring->count = count;
}

PLAINLY static void ring_store(struct ring *ring, size_t place, uint64_t value)
{
    uint64_t *values = ring->values;
    values[place] = value; /* guilty */
}

PLAINLY static void ring_fill(struct ring *ring, size_t count)
{
    for (size_t i = 0; i < count; i++) ring_store(ring, i, i << 40);
}

PLAINLY static uint64_t ring_last(const struct ring *ring)
{
    return ring->values[ring->count - 1]; /* also guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct ring));
    struct ring *ring = (struct ring *)need(calloc(1, sizeof *ring));
    ring_fill(ring, ROOM);
    ring_set(ring, 4);
    uint64_t before = ring_last(ring);
    ring_fill(ring, ROOM + 1);
    return ring_last(ring) == before ? 4 : 5;
}
