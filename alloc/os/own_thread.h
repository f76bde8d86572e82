/* own_thread.h: threads of the library's own. All signals are blocked in one, and its stack has room whatever the program's
 * thread-local data takes: libc puts that data on the stack. */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* What the function has of the stack at least; four times that under a sanitizer. */
enum { OWN_THREAD_STACK_BYTES = 128 * 1024 };

/* Returns 0, or an errno value if the system refuses. Allocates what pthread_create does. Keeps errno. */
int own_thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Waits for its end. Not a cancellation point, unlike pthread_join. */
void own_thread_join(pthread_t thread);

/* How large a stack own_thread_start asks for at first. */
size_t own_thread_stack_bytes(void);
