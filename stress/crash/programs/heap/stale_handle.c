/* stale_handle.c: a connection is closed again through a handle that was kept. Its block has become another connection
 * of the same kind, which loses its buffer. */
// expect: library=release cause=use_after_free,null_stored,double_free grade=likely
#include "../program.h"

struct connection {
    uint64_t number;
    char *buffer;
    char rest[80];
};

PLAINLY static struct connection *connection_open(uint64_t number)
{
    struct connection *connection = (struct connection *)need(malloc(sizeof *connection));
    connection->number = number;
    connection->buffer = copy_text("some text to send!");
    return connection;
}

PLAINLY static void connection_end(struct connection *connection)
{
    free(connection); /* guilty */
}

PLAINLY static void connection_clear(struct connection *connection)
{
    free(connection->buffer);
    connection->buffer = NULL; /* also guilty */
}

PLAINLY static char connection_next(const struct connection *connection)
{
    return connection->buffer[0];
}

int main(void)
{
    earlier_owners(sizeof(struct connection));
    struct connection *kept = connection_open(1);
    connection_clear(kept);
    connection_end(kept);
    struct connection *other = connection_open(2);
    char before = connection_next(other);
    connection_clear(kept);
    return connection_next(other) == before ? 4 : 5;
}
