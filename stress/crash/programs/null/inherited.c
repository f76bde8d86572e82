/* inherited.c: a server clears its table before it makes a child, and the child reads it. Children free what they have
 * inherited, and the server frees its own copy. */
// expect: library=both cause=null_stored grade=found
#include <sys/wait.h>

#include "../program.h"

struct server {
    uint64_t *table;
    uint64_t children;
    char name[48];
};

PLAINLY static void table_make(struct server *server)
{
    server->table = (uint64_t *)need(calloc(8, sizeof *server->table));
}

PLAINLY static void table_forget(struct server *server)
{
    free(server->table);
    server->table = NULL; /* guilty */
}

PLAINLY static int serve(struct server *server)
{
    int status = server->table[server->children] == 0 ? 4 : 5;
    free(server->table);
    return status;
}

PLAINLY static void make_child(struct server *server)
{
    pid_t child = fork();
    if (child == 0) _exit(serve(server));
    server->children++;
    int status;
    if (waitpid(child, &status, 0) != child) _exit(3);
}

int main(void)
{
    earlier_owners(sizeof(struct server));
    struct server *server = (struct server *)need(calloc(1, sizeof *server));
    table_make(server);
    make_child(server);
    table_forget(server);
    table_make(server);
    make_child(server);
    table_forget(server);
    make_child(server);
    return 0;
}
