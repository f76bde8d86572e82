/* loading_own_malloc.c: a program that exports a malloc of its own, as Chromium does. A malloc that is preloaded must
 * leave it alone. Exit status 1, and a line on standard error: it was not left alone. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char arena[64 << 20]; /* blocks are cut from this, and never used again */
static _Atomic(size_t) arena_used;

static void check(bool holds, const char *what)
{
    if (holds) return;
    dprintf(STDERR_FILENO, "%s\n", what);
    _exit(1);
}

static bool is_own(const void *block)
{
    return (uintptr_t)block >= (uintptr_t)arena && (uintptr_t)block < (uintptr_t)arena + sizeof arena;
}

void *memalign(size_t align, size_t size_bytes)
{
    if (align < 16) align = 16;
    size_t room = (size_bytes + align + 31) & ~(size_t)15, at = atomic_fetch_add(&arena_used, room);
    if (room > sizeof arena - at) return errno = ENOMEM, NULL;
    uintptr_t start = ((uintptr_t)arena + at + 16 + align - 1) & ~(align - 1);
    ((size_t *)start)[-1] = size_bytes;
    return (void *)start;
}

void *malloc(size_t size_bytes)
{
    return memalign(16, size_bytes);
}

void *calloc(size_t count, size_t size_bytes)
{
    return memalign(16, count * size_bytes);
}

void *aligned_alloc(size_t align, size_t size_bytes)
{
    return memalign(align, size_bytes);
}

int posix_memalign(void **block, size_t align, size_t size_bytes)
{
    return (*block = memalign(align, size_bytes)) == NULL ? ENOMEM : 0;
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : ((size_t *)block)[-1];
}

void free(void *block)
{
    check(block == NULL || is_own(block), "a block of another malloc came to the program's free");
}

void *realloc(void *block, size_t size_bytes)
{
    void *other = malloc(size_bytes);
    if (block == NULL || other == NULL) return other;
    free(block);
    size_t old = malloc_usable_size(block);
    return memcpy(other, block, old < size_bytes ? old : size_bytes);
}

static void *few_calls(void *unused)
{
    for (size_t size = 1; size < 2000; size += 100) free(malloc(size));
    return unused;
}

int main(void)
{
    char *text = strdup("libc's blocks are the program's too");
    void *numbers = NULL;
    check(is_own(text) && is_own(malloc(10)), "the program's malloc is not used");
    check(posix_memalign(&numbers, 64, 100) == 0 && is_own(numbers), "the program's posix_memalign is not used");
    free(text);
    text = strcpy(malloc(10), "grown");
    text = reallocarray(text, 100, 20); /* this function is left to libc, which calls realloc by its name */
    check(text != NULL && is_own(text) && strcmp(text, "grown") == 0,
          "reallocarray does not call the program's realloc");
    free(text);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, few_calls, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    fclose(fopen("/proc/self/status", "r"));
    void *module = dlopen("libstdc++.so.6", RTLD_NOW); /* allocates when it is loaded */
    if (module != NULL) dlclose(module);
    return 0;
}
