// Starting and joining threads. Threads have small stacks, so that many may wait to be joined. They block the signals
// of the Signals op, which only seats must get.
//
// If system calls for memory are trapped, threads get stacks of ours: libc unmaps a dead thread's stack with all
// signals blocked, and a trap there would end the process. A stack of ours is reused once its thread is joined.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "engine/base/build.h"
#include "engine/base/libc.h"
#include "engine/subject/fault_os.h"
#include "engine/team/signals.h"
#include "engine/team/thread_start.h"

namespace stress {
namespace {

constexpr std::size_t kStackBytes = std::size_t{512} << 10;

struct Stack {
    std::atomic<bool> taken{false};
    std::atomic<bool> started{false};  // thread is valid
    pthread_t thread{};
    char *start = nullptr;
};
constexpr std::size_t kStacksMax = 4096;
Stack stacks[kStacksMax];

Stack *stack_take()
{
    for (Stack &stack : stacks) {
        // acquire: the previous user's thread is joined. Pairs with the release in thread_join.
        if (stack.taken.exchange(true, std::memory_order_acquire)) continue;
        if (stack.start != nullptr) return &stack;
        void *start = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
        if (start != MAP_FAILED) {
            stack.start = static_cast<char *>(start);
            return &stack;
        }
        stack.taken.store(false, std::memory_order_release);
        return nullptr;
    }
    return nullptr;
}

// Uses the upper `bytes` of the stack, with an inaccessible page below them.
bool stack_set(pthread_attr_t &attributes, Stack &stack, std::size_t bytes)
{
    const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    if (bytes > kStackBytes - page_bytes) bytes = kStackBytes - page_bytes;
    char *const from = stack.start + kStackBytes - bytes;
    return mprotect(stack.start, kStackBytes, PROT_READ | PROT_WRITE) == 0 &&
           mprotect(from - page_bytes, page_bytes, PROT_NONE) == 0 &&
           pthread_attr_setstack(&attributes, from, bytes) == 0;
}

int create_on_own_stack(pthread_t &thread, pthread_attr_t &attributes, void *(*entry)(void *), void *argument,
                        std::size_t bytes)
{
    Stack *stack = stack_take();
    if (stack == nullptr) return EAGAIN;
    const int error =
        stack_set(attributes, *stack, bytes) ? pthread_create(&thread, &attributes, entry, argument) : EAGAIN;
    if (error != 0) {
        stack->taken.store(false, std::memory_order_release);
        return error;
    }
    stack->thread = thread;
    // release: publishes the handle. Pairs with the acquire in thread_join.
    stack->started.store(true, std::memory_order_release);
    return 0;
}

}  // namespace

int thread_create(pthread_t &thread, void *(*entry)(void *), void *argument, std::size_t stack_bytes)
{
    if (stack_bytes == 0) stack_bytes = kStackBytes;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const StartMask start_mask(attributes, signals_blocked_mask());
    if constexpr (!kSanitized) pthread_attr_setstacksize(&attributes, stack_bytes);
    const int error = fault_os_installed() ? create_on_own_stack(thread, attributes, entry, argument, stack_bytes)
                                           : pthread_create(&thread, &attributes, entry, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

void thread_join(pthread_t thread)
{
    pthread_join(thread, nullptr);
    if (!fault_os_installed()) return;
    for (Stack &stack : stacks) {
        if (!stack.started.load(std::memory_order_acquire) || !pthread_equal(stack.thread, thread)) continue;
        stack.started.store(false, std::memory_order_relaxed);
        stack.taken.store(false, std::memory_order_release);
        return;
    }
}

}  // namespace stress
