/* null_global.c: a configuration that cannot be read again is dropped, and nothing replaces it: the global holds
 * NULL. */
// expect: library=both cause=null_stored,null_returned grade=likely
// build: -fno-pie -no-pie
#include "../program.h"

struct config {
    uint64_t limit;
    char name[56];
};

static struct config *current;
static struct config *spare;

PLAINLY static struct config *config_read(uint64_t limit)
{
    if (limit == 0) return NULL;
    struct config *config = (struct config *)need(malloc(sizeof *config));
    config->limit = limit;
    return config;
}

PLAINLY static void config_start(void)
{
    spare = NULL;
    current = NULL;
    current = config_read(100);
}

PLAINLY static void config_reload(uint64_t limit)
{
    struct config *old = current;
    current = config_read(limit); /* guilty */
    free(old);
}

PLAINLY static uint64_t limit_now(void)
{
    return current->limit;
}

int main(void)
{
    earlier_owners(sizeof(struct config));
    config_start();
    config_reload(200);
    uint64_t before = limit_now();
    config_reload(0);
    earlier_owners(sizeof(struct config));
    return limit_now() == before ? 4 : 5;
}
