/* freed_twice.c: a connection's buffer is freed when it fails, and again when it is closed. Two owners then share the
 * block, and the last one to write to it does nothing wrong. */
// expect: library=release cause=double_free grade=found
// expect: library=validate cause=double_free grade=found seconds=10
#include "../program.h"

struct user {
    uint64_t *rights;
    char name[56];
};

struct connection {
    char *buffer;
    int failed;
};

PLAINLY static void connection_open(struct connection *connection)
{
    connection->buffer = (char *)need(malloc(sizeof(struct user)));
    memset(connection->buffer, 'b', sizeof(struct user));
}

PLAINLY static void connection_fail(struct connection *connection)
{
    free(connection->buffer); /* also guilty */
    connection->failed = 1;
}

PLAINLY static void connection_close(struct connection *connection)
{
    free(connection->buffer); /* guilty */
    connection->buffer = NULL;
}

PLAINLY static struct user *user_make(void)
{
    static uint64_t rights;
    struct user *user = (struct user *)need(malloc(sizeof *user));
    user->rights = &rights;
    return user;
}

PLAINLY static char *name_make(void)
{
    char *name = (char *)need(malloc(sizeof(struct user)));
    memset(name, 'n', sizeof(struct user));
    return name;
}

PLAINLY static uint64_t rights_of(const struct user *user)
{
    return *user->rights;
}

int main(void)
{
    struct connection connection = {NULL, 0};
    earlier_owners(sizeof(struct user));
    connection_open(&connection);
    connection_fail(&connection);
    connection_close(&connection);
    struct user *user = user_make();
    char *name = name_make();
    return rights_of(user) == 0 && name[0] == 'n' ? 4 : 5;
}
