// Starting and joining threads of the suite, whose stacks are small and, where system calls for memory fail on purpose,
// our own.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace stress {

// 0 or an errno value. The stack is small, so that many threads may wait to be joined; stack_bytes
// 0: the usual size.
int thread_create(pthread_t &thread, void *(*entry)(void *), void *argument, std::size_t stack_bytes = 0);
void thread_join(pthread_t thread);

} // namespace stress
