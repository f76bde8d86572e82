/* polled_null.c: a field that calloc has zeroed is read often, and then set to NULL because the peer is not known. */
// expect: library=both cause=null_stored,uninitialised,never_set grade=likely
#include "../program.h"

struct connection {
    uint64_t number;
    char *volatile peer;
    char rest[32];
};

PLAINLY static struct connection *connection_make(uint64_t number)
{
    struct connection *connection = (struct connection *)need(calloc(1, sizeof *connection)); /* also guilty */
    connection->number = number;
    return connection;
}

PLAINLY static int is_open(const struct connection *connection)
{
    return connection->peer != NULL;
}

PLAINLY static char *peer_of(uint64_t number)
{
    return number > 3 ? copy_text("a peer") : NULL;
}

PLAINLY static void connection_open(struct connection *connection)
{
    connection->peer = peer_of(connection->number); /* guilty */
}

PLAINLY static int connection_first(const struct connection *connection)
{
    return connection->peer[0];
}

int main(void)
{
    earlier_owners(sizeof(struct connection));
    struct connection *connection = connection_make(2);
    for (int i = 0; i < 5000; i++)
        if (is_open(connection)) return 3;
    connection_open(connection);
    return connection_first(connection);
}
