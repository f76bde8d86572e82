/* end_key.h: the pthread key whose destructor tells the heap of a thread's end. A program's own pthread_key_create may allocate,
 * or wait for another thread, so one thread makes the key, under no lock. */
#pragma once

#include <stdbool.h>

/* Makes the key. Called once. */
void end_key_make(void (*at_end)(void *));

/* Whether it has not been made yet; false also once libc has refused it. Any thread. */
bool end_key_is_awaited(void);

/* Has at_end called at the end of the calling thread. Allocates what pthread_setspecific does. False: libc refuses it, or
 * there is no key. */
bool end_key_watch(void *value);
