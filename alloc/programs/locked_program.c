/* locked_program.c: a daemon without privileges locks its memory, as the usual limit allows (RLIMIT_MEMLOCK: 8 MiB), and lives
 * on: a thread, blocks of all kinds. With an argument, it only locks it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMIT_BYTES = 8 << 20, STACK_BYTES = 64 << 10, BLOCKS = 1000, NOBODY = 65534 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void *thread_main(void *unused)
{
    void *block = malloc(50000);
    if (block == NULL) fail("a thread's block");
    free(block);
    return unused;
}

int main(int argc, char **argv)
{
    (void)argv;
    const struct rlimit limit = {LIMIT_BYTES, LIMIT_BYTES};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) fail("setrlimit");
    if (geteuid() == 0 && setuid(NOBODY) != 0) fail("setuid"); /* CAP_IPC_LOCK would lift the limit */
    free(malloc(1000));
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) fail("mlockall");
    if (mlockall(0) == 0 || errno != EINVAL) fail("mlockall without flags"); /* what was asked for holds on */
    if (argc > 1) return 0;

    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, thread_main, NULL) != 0) fail("pthread_create");
    pthread_join(thread, NULL);
    for (int round = 0; round < 3; round++) {
        static char *blocks[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(1000);
            if (blocks[i] == NULL) fail("a small block");
            memset(blocks[i], i, 1000);
        }
        char *large = malloc(1 << 20);
        if (large == NULL) fail("a large block");
        memset(large, 1, 1 << 20);
        for (int i = 0; i < BLOCKS; i++) {
            if (blocks[i][0] != (char)i || blocks[i][999] != (char)i) return 1;
            free(blocks[i]);
        }
        free(large);
    }
    return 0;
}
