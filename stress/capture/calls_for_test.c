/* usage: calls_for_test MODE
 *
 * Makes calls that capture_test.cc can tell from those of libc by their sizes, from 5001 to 5999 bytes.
 *   threads  four threads, one after another of which allocates kBlocks blocks for the next to free; three end early
 *   kinds    each kind of call once, a free of a block of libc's own, and reallocs that move, stay, free and fail
 *   fork     allocates, forks, and the child allocates and frees what it has from its parent; then the child runs
 *            this program again as `kinds`
 *   touches  large blocks: 64 MiB of which 1 MiB is written, 40 MiB written whole, 1 MiB that grows to 48 of which 3
 *            are written; and 32 MiB from calloc, 2 MiB written, which stays
 *   closed   allocates until its log is closed
 *   killed   allocates kBlocks blocks in two threads and kills itself in the middle of more */
#define _GNU_SOURCE
#include "capture/capture_log.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlocks = 1000 };

static void *handed[4][kBlocks];

static void *pass_on(void *argument)
{
    const intptr_t index = (intptr_t)argument;
    for (int i = 0; i < kBlocks; ++i) {
        if (index > 0) free(handed[index - 1][i]);
        handed[index][i] = malloc(5001 + (size_t)index);
    }
    return NULL;
}

static void threads(void)
{
    for (intptr_t index = 0; index < 4; ++index) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, pass_on, (void *)index) != 0) exit(1);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < kBlocks; ++i) free(handed[3][i]);
}

static void kinds(void)
{
    void *blocks[8] = {malloc(5001),
                       calloc(5, 1001),
                       aligned_alloc(64, 5056),
                       memalign(256, 5010),
                       valloc(5020),
                       reallocarray(NULL, 5, 1005),
                       NULL,
                       NULL};
    if (posix_memalign(&blocks[6], 4096, 5030) != 0) exit(1);
    blocks[7] = realloc(malloc(5040), 5041);
    for (int i = 0; i < 8; ++i) free(blocks[i]);
    free(strdup("a block of libc's own"));
    void *block = malloc(5050);
    if (realloc(block, SIZE_MAX / 4) != NULL) exit(1); /* refused: the block stays */
    block = realloc(block, 5051);
    if (realloc(block, 0) != NULL) exit(1); /* glibc frees */
}

static void fork_once(const char *program)
{
    void *before = malloc(5001);
    const pid_t child = fork();
    if (child < 0) exit(1);
    if (child == 0) {
        free(before);
        free(malloc(5002));
        execl(program, program, "kinds", (char *)NULL);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    free(before);
    free(malloc(5003));
    exit(status == 0 ? 0 : 1);
}

static void touches(void)
{
    enum { MIB = 1 << 20 };
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) exit(1); /* the first byte would touch 2 MiB */
    char *some = malloc(64 * MIB), *all = malloc(40 * MIB), *cleared = calloc(32, MIB), *grown = malloc(MIB);
    if (some == NULL || all == NULL || cleared == NULL || grown == NULL) exit(1);
    if (realloc(some, SIZE_MAX / 4) != NULL) exit(1); /* refused: the block stays, and is written only now */
    memset(some, 1, MIB);
    free(some);
    memset(all, 1, 40 * MIB);
    free(all);
    memset(grown, 1, MIB);
    grown = realloc(grown, 48 * MIB);
    if (grown == NULL) exit(1);
    memset(grown + MIB, 1, 2 * MIB);
    free(grown);
    memset(cleared, 1, 2 * MIB);
}

static void *without_end(void *nothing)
{
    for (;;) free(malloc(5999));
    return nothing;
}

static void killed(void)
{
    pthread_t thread;
    for (int i = 0; i < kBlocks; ++i) handed[0][i] = malloc(5001);
    if (pthread_create(&thread, NULL, without_end, NULL) != 0) exit(1);
    for (int i = 0; i < kBlocks; ++i) handed[1][i] = malloc(5002);
    usleep(20000);
    kill(getpid(), SIGKILL);
}

/* capture closes a log by taking its room. A shell may have begun one in this process before. */
static void closed(void)
{
    char path[2][4096];
    struct capture_head head;
    free(malloc(5001));
    for (int image = 0; image < 2; ++image)
        snprintf(path[image], sizeof path[image], "%s/%d%s", getenv(CAPTURE_DIRECTORY), getpid(),
                 image == 0 ? "-2" : "");
    const int fd = open(path[access(path[0], R_OK) == 0 ? 0 : 1], O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 20000; ++i) {
        free(malloc(5002));
        if (pread(fd, &head, sizeof head, 0) != sizeof head) exit(1);
        if (head.count > head.room) exit(0);
        usleep(1000);
    }
    exit(1);
}

int main(int argc, char **argv)
{
    const char *mode = argc == 2 ? argv[1] : "";
    if (strcmp(mode, "threads") == 0) threads();
    else if (strcmp(mode, "kinds") == 0) kinds();
    else if (strcmp(mode, "fork") == 0) fork_once(argv[0]);
    else if (strcmp(mode, "touches") == 0) touches();
    else if (strcmp(mode, "closed") == 0) closed();
    else if (strcmp(mode, "killed") == 0) killed();
    else return 2;
    return 0;
}
