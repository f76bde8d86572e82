/* A malloc with two locks that malloc and the aligned calls take in opposite order. It forwards to libc.
 *
 * Not malloc and free: libc itself calls those when threads start, and would hang before the run begins. The library
 * has the sync points of validate.h, so that the seeded scheduler can switch threads between the two locks and sees
 * them wait. Without a hook it waits in the ordinary way. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

void *__libc_malloc(size_t size_bytes);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *block, size_t size_bytes);
void *__libc_memalign(size_t align_bytes, size_t size_bytes);

void (*hak_sync_point_hook)(const char *step);

static pthread_mutex_t pages = PTHREAD_MUTEX_INITIALIZER, bins = PTHREAD_MUTEX_INITIALIZER;
static bool armed;

__attribute__((constructor)) static void canary_start(void)
{
    armed = true;
}

static void sync_point(const char *step)
{
    if (hak_sync_point_hook != NULL) hak_sync_point_hook(step);
}

static void take(pthread_mutex_t *lock)
{
    if (hak_sync_point_hook == NULL) {
        pthread_mutex_lock(lock);
        return;
    }
    while (pthread_mutex_trylock(lock) != 0) sync_point("lock_wait");
    sync_point("lock_taken");
}

static void give(pthread_mutex_t *lock)
{
    pthread_mutex_unlock(lock);
    sync_point("lock_release");
}

static void take_both(pthread_mutex_t *first, pthread_mutex_t *second)
{
    if (!armed) return;
    const int error = errno;
    take(first);
    if (hak_sync_point_hook == NULL) sched_yield();
    take(second);
    give(second);
    give(first);
    errno = error;
}

void *malloc(size_t size_bytes)
{
    take_both(&pages, &bins);
    return __libc_malloc(size_bytes);
}

void free(void *block)
{
    __libc_free(block);
}

void *calloc(size_t count, size_t size_bytes)
{
    return __libc_calloc(count, size_bytes);
}

void *realloc(void *block, size_t size_bytes)
{
    return __libc_realloc(block, size_bytes);
}

void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    take_both(&bins, &pages);
    return __libc_memalign(align_bytes, size_bytes);
}
