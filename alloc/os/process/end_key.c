/* end_key.c: see end_key.h. */
#include "os/process/end_key.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_AWAITED, KEY_REFUSED, KEY_FIRST };
static _Atomic(uint64_t) end_key; /* one of these, or the key + KEY_FIRST */

/* A second C library in the process (dlmopen) hands out keys of its own with the same numbers, but a thread has only
 * one array for the values of both. Each library hands out the lowest free key. So this takes the last key for which
 * libc has room in each thread: the other library's keys do not reach that number before it has made KEYS_INLINE of
 * them. If the library that this runs in is itself the second one, it takes the last such key that has no value in this
 * thread. */
static uint64_t choose(void (*at_end)(void *))
{
    enum { KEYS_INLINE = 32 };
    pthread_key_t keys[KEYS_INLINE];
    int count = 0;
    while (count < KEYS_INLINE && pthread_key_create(&keys[count], at_end) == 0)
        if (keys[count++] >= KEYS_INLINE - 1) break;
    if (count == 0) return KEY_REFUSED;
    int chosen = count - 1;
    while (chosen > 0 && pthread_getspecific(keys[chosen]) != NULL) chosen--;
    for (int i = 0; i < count; i++)
        if (i != chosen) pthread_key_delete(keys[i]);
    return (uint64_t)keys[chosen] + KEY_FIRST;
}

void end_key_make(void (*at_end)(void *))
{
    /* release: publishes what libc has written for the key, which pthread_setspecific reads. */
    atomic_store_explicit(&end_key, choose(at_end), memory_order_release);
}

bool end_key_is_awaited(void)
{
    /* relaxed: end_key_watch reads it again. */
    return atomic_load_explicit(&end_key, memory_order_relaxed) == KEY_AWAITED;
}

bool end_key_watch(void *value)
{
    const uint64_t key = atomic_load_explicit(&end_key, memory_order_acquire); /* pairs with end_key_make */
    return key >= KEY_FIRST && pthread_setspecific((pthread_key_t)(key - KEY_FIRST), value) == 0;
}
