/* Loaded after a malloc, and before libc, so it ends after the malloc. What its destructor does must work then, too. Says
 * "ok" for conform-fresh. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 200, STEP = 500 };

static void *blocks[BLOCKS];

static int take(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 16 + (size_t)i * STEP;
        blocks[i] = malloc(size);
        if (blocks[i] == NULL) return 0;
        memset(blocks[i], 1, size);
    }
    return 1;
}

static void give(void)
{
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void take_or_end(const char *none)
{
    if (take()) return;
    ssize_t written = write(STDOUT_FILENO, none, strlen(none));
    (void)written;
    _exit(1);
}

__attribute__((constructor)) static void begin(void)
{
    take_or_end("malloc gives NULL before the malloc has begun\n");
}

__attribute__((destructor)) static void end(void)
{
    static const char ok[] = "ok\n";
    give();
    for (int round = 0; round < 2; round++) {
        take_or_end("malloc gives NULL after the malloc has ended\n");
        give();
    }
    if (write(STDOUT_FILENO, ok, sizeof ok - 1) < 0) _exit(2);
}
