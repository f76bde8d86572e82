/* A preloaded malloc with a cliff at one size, and one at which it ends the program. It tests what ci/bench surface finds. */
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CLIFF_BYTES = 300 * 1024, CRASH_BYTES = 3 * 1024 * 1024, CALLS = 10 };

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);

void *malloc(size_t size_bytes)
{
    if (size_bytes == CRASH_BYTES) abort();
    for (int i = 0; size_bytes == CLIFF_BYTES && i < CALLS; ++i)
        munmap(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    return __libc_malloc(size_bytes);
}

void free(void *block)
{
    __libc_free(block);
}
