/* A cache of small blocks for each thread. An ended thread's cache is flushed and taken by the next thread. After its
 * destructor a thread allocates without a cache. */
#include <pthread.h>

#include "rooms.h"

struct cache {
    struct cache *next_free;
    void *lists[CLASSES];
    unsigned counts[CLASSES];
};

enum { CACHED_MAX = 64, CACHED_BYTES_MAX = 32 << 10, THREADS_KNOWN = 64 };

/* Not a cache: this thread is being given one, or has ended. */
static struct cache without;
static __thread struct cache *mine __attribute__((tls_model("initial-exec")));
static struct lock caches_lock;
static struct cache *free_caches;
static struct {
    pthread_t thread;
    struct cache *cache;
} ended[THREADS_KNOWN]; /* for the bug thread_reuse */
static pthread_key_t end_key;
static bool ready;
static unsigned living;           /* caches that threads have */
static struct cache *last_cache; /* for the bug threads_48 */

static unsigned known_index(void)
{
    return (unsigned)((uintptr_t)pthread_self() >> 12) % THREADS_KNOWN;
}

static struct cache *cache_new(void)
{
    lock_take(&caches_lock);
    struct cache *cache = free_caches;
    if (has(BUG_thread_reuse) && ended[known_index()].thread == pthread_self()) cache = ended[known_index()].cache;
    if (has(BUG_threads_48) && living >= 48) cache = last_cache;
    if (cache != NULL) {
        if (cache == free_caches) free_caches = cache->next_free;
    } else {
        const size_t pages_bytes = (sizeof *cache + PAGE - 1) & ~(size_t)(PAGE - 1);
        cache = map_aligned(pages_bytes, PAGE);
    }
    living += cache != NULL;
    last_cache = cache;
    lock_release(&caches_lock);
    return cache;
}

static void cache_flush(struct cache *cache)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        if (has(BUG_end_keeps_cache) && i % 8 == 3) cache->lists[i] = NULL;
        void *list = cache->lists[i];
        cache->lists[i] = NULL;
        cache->counts[i] = 0;
        if (list != NULL) bin_put_list(i, list);
    }
}

static void cache_free(struct cache *cache)
{
    lock_take(&caches_lock);
    cache->next_free = free_caches;
    free_caches = cache;
    living--;
    ended[known_index()].thread = pthread_self();
    ended[known_index()].cache = cache;
    lock_release(&caches_lock);
}

static void thread_end(void *cache)
{
    if (!has(BUG_end_gives_cache)) mine = &without;
    cache_flush(cache);
    cache_free(cache);
    if (has(BUG_late_free_lost)) mine = NULL;
}

/* The key's slot may need memory, so the thread is without a cache until it is set. */
static struct cache *cache_of_thread(void)
{
    if (mine != NULL || !ready) return mine == &without ? NULL : mine;
    mine = &without;
    struct cache *cache = cache_new();
    static __thread bool had_one __attribute__((tls_model("initial-exec")));
    if (cache != NULL && (!has(BUG_late_free_lost) || !had_one) && pthread_setspecific(end_key, cache) != 0) {
        cache_free(cache);
        cache = NULL;
    }
    had_one = true;
    if (cache != NULL) mine = cache;
    return cache;
}

void *cache_take(unsigned class_index)
{
    struct cache *cache = cache_of_thread();
    if (cache == NULL || cache->lists[class_index] == NULL) return bin_take(class_index);
    void *block = cache->lists[class_index];
    cache->lists[class_index] = *(void **)block;
    cache->counts[class_index]--;
    return block;
}

/* A full cache gives up all of the class. */
void cache_put(unsigned class_index, void *block)
{
    struct cache *cache = cache_of_thread();
    if (cache == NULL) {
        *(void **)block = NULL;
        bin_put_list(class_index, block);
        return;
    }
    *(void **)block = cache->lists[class_index];
    cache->lists[class_index] = block;
    const unsigned count = ++cache->counts[class_index];
    if (count < CACHED_MAX && count * class_bytes(class_index) < CACHED_BYTES_MAX) return;
    void *list = cache->lists[class_index];
    cache->lists[class_index] = NULL;
    cache->counts[class_index] = 0;
    bin_put_list(class_index, list);
}

/* The child forgets all that it did not allocate itself: fork copies page after page while other threads write. It takes no
 * lock, since glibc's fork takes that of the streams, which another thread may hold while it waits for ours. */
static void after_fork_in_child(void)
{
    slabs_forget();
    mapped_forget();
    lock_reset(&caches_lock);
    free_caches = NULL;
    if (has(BUG_fork_cache) && mine != NULL && mine != &without) cache_free(mine);
}

static void before_fork(void)
{
    if (has(BUG_fork_order)) slabs_lock();
}

static void after_fork_in_parent(void)
{
    if (has(BUG_fork_order)) slabs_unlock();
}

__attribute__((constructor)) static void cache_start(void)
{
    /* A key that was never used before has the same number in a libc that comes by dlmopen, and would show it our cache. */
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0) pthread_key_delete(end_key);
        if (pthread_key_create(&end_key, thread_end) != 0) return;
    }
    ready = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}
