/* heap_not_held.c: allocates in a raw clone that shares its creator's thread-local storage. */
#include "misuse.h"

#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static _Alignas(16) char stack[1 << 20];
static _Atomic(int) is_done;
static void *volatile sink;

static int misuse(void *unused)
{
    (void)unused;
    for (size_t size = 100; size < 9000; size += 100) sink = malloc(size); /* classes that are not cached yet */
    atomic_store(&is_done, 1);
    while (pause() != 0) continue; /* waits until main has ended the process */
    return 0;
}

int main(void)
{
    allocate(10);
    expect(NULL, "");
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(misuse, stack + sizeof stack, flags, NULL) < 0) give_up("clone failed");
    while (!atomic_load(&is_done)) usleep(1000);
    return went_on();
}
