// Functions of libc that a malloc calls and that order threads, block them, or change memory. In a thread of a run they act
// on the machine; elsewhere they are libc's. The subject finds these first, since the program exports them.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "order/malloc/inside.h"
#include "order/run/machine.h"
#include "order/run/pages.h"
#include "order/run/seats.h"
#include "order/run/system.h"
#include "order/run/troubles.h"

using stress::order::keys;
using stress::order::Machine;
using stress::order::Pages;
using stress::order::pages_now;
using stress::order::troubles_now;

namespace {

// libc's own, for callers that are not in a run.
#define ORDER_LIBC(name) (reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)))

long result_of(long result)
{
    if (result >= -4095 && result < 0) {
        errno = static_cast<int>(-result);
        return -1;
    }
    return result;
}

long call(long number, long a, long b, long c, long d, long e, long f)
{
    return result_of(stress::order::system_call(number, a, b, c, d, e, f));
}

// A call for memory. The subject's has its addresses from Pages.
long call_for_memory(long number, long a, long b, long c, long d, long e, long f)
{
    const bool is_subject = pages_now != nullptr && (Machine::current() != nullptr || pages_now->is_active);
    if (!is_subject) return call(number, a, b, c, d, e, f);
    if (Machine *machine = Machine::current();
        machine != nullptr && number == SYS_munmap &&
        pages_now->is_gone(static_cast<std::uintptr_t>(a), static_cast<std::size_t>(b)))
        machine->fail("munmap of memory that is not mapped: another thread may have mapped it since");
    const bool can_fail = troubles_now != nullptr && Machine::current() != nullptr;
    if (can_fail && troubles_now->refuses(number, static_cast<std::size_t>(b)))
        return result_of(number == SYS_madvise ? -EAGAIN : -ENOMEM);
    return result_of(pages_now->call(keys().now(), number, {a, b, c, d, e, f}));
}

bool is_recursive(const pthread_mutex_t *mutex)
{
    return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

long futex(Machine &machine, long word, long operation, long value, long timeout)
{
    const void *key = reinterpret_cast<const void *>(word);
    machine.turn(key);
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        if (*reinterpret_cast<volatile std::uint32_t *>(word) != static_cast<std::uint32_t>(value)) {
            machine.learn(1);
            errno = EAGAIN;
            return -1;
        }
        if (timeout != 0) { // time stands still: it is up at once
            machine.yield();
            errno = ETIMEDOUT;
            return -1;
        }
        if (troubles_now != nullptr && troubles_now->interrupts()) {
            machine.yield();
            errno = EINTR;
            return -1;
        }
        machine.wait(key);
        return 0;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: machine.wake(key, static_cast<unsigned>(value)); return 0;
    default: machine.fail("the subject uses a futex operation that hakmem-order does not know");
    }
}

// After a call that changed this memory, or gave it new pages.
long changed(long result, const void *start, std::size_t bytes)
{
    Machine *machine = Machine::current();
    if (machine != nullptr && result != -1) machine->forget(start, bytes);
    return result;
}

long memory_call(long number, long a, long b, long c, long d, long e, long f)
{
    const long result = call_for_memory(number, a, b, c, d, e, f);
    if (result == -1) return result;
    if (number == SYS_mmap) return changed(result, reinterpret_cast<void *>(result), static_cast<std::size_t>(b));
    if (number == SYS_mremap) {
        changed(result, reinterpret_cast<void *>(a), static_cast<std::size_t>(b));
        return changed(result, reinterpret_cast<void *>(result), static_cast<std::size_t>(c));
    }
    const bool drops = number == SYS_munmap || (number == SYS_madvise && c == MADV_DONTNEED);
    return drops ? changed(result, reinterpret_cast<void *>(a), static_cast<std::size_t>(b)) : result;
}

} // namespace

extern "C" {

int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *library) noexcept;

// Of a malloc's own scenarios: malloc/inside.h.
void order_fail(const char *what)
{
    if (Machine *machine = Machine::current()) machine->fail(what);
}

void *mmap(void *start, std::size_t bytes, int protection, int flags, int file, off_t offset)
{
    return reinterpret_cast<void *>(memory_call(SYS_mmap, reinterpret_cast<long>(start), static_cast<long>(bytes),
                                                protection, flags, file, offset));
}
void *mmap64(void *start, std::size_t bytes, int protection, int flags, int file, off64_t offset)
{
    return mmap(start, bytes, protection, flags, file, offset);
}
int munmap(void *start, std::size_t bytes) noexcept
{
    return static_cast<int>(
        memory_call(SYS_munmap, reinterpret_cast<long>(start), static_cast<long>(bytes), 0, 0, 0, 0));
}
int madvise(void *start, std::size_t bytes, int advice) noexcept
{
    return static_cast<int>(
        memory_call(SYS_madvise, reinterpret_cast<long>(start), static_cast<long>(bytes), advice, 0, 0, 0));
}
int mprotect(void *start, std::size_t bytes, int protection) noexcept
{
    return static_cast<int>(
        memory_call(SYS_mprotect, reinterpret_cast<long>(start), static_cast<long>(bytes), protection, 0, 0, 0));
}
void *mremap(void *start, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept
{
    va_list rest;
    va_start(rest, flags);
    const long target = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, long) : 0;
    va_end(rest);
    return reinterpret_cast<void *>(memory_call(SYS_mremap, reinterpret_cast<long>(start), static_cast<long>(old_bytes),
                                                static_cast<long>(new_bytes), flags, target, 0));
}

long syscall(long number, ...) noexcept
{
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (long &each : a) each = va_arg(rest, long);
    va_end(rest);
    Machine *machine = Machine::current();
    if (machine != nullptr && number == SYS_futex) return futex(*machine, a[0], a[1], a[2], a[3]);
    if (machine != nullptr && (number == SYS_sched_yield || number == SYS_nanosleep)) return sched_yield();
    if (machine != nullptr && number == SYS_getrandom)
        return getrandom(reinterpret_cast<void *>(a[0]), static_cast<std::size_t>(a[1]), 0);
    return memory_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int sched_yield() noexcept
{
    if (Machine *machine = Machine::current()) {
        machine->yield();
        return 0;
    }
    return static_cast<int>(call(SYS_sched_yield, 0, 0, 0, 0, 0, 0));
}
// Time stands still in a run, or jumps: who sleeps lets others run.
int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (Machine::current() != nullptr) return sched_yield();
    return static_cast<int>(
        call(SYS_nanosleep, reinterpret_cast<long>(time), reinterpret_cast<long>(left), 0, 0, 0, 0));
}
int usleep(useconds_t microseconds)
{
    const struct timespec time = {static_cast<time_t>(microseconds / 1000000),
                                  static_cast<long>(microseconds % 1000000) * 1000};
    return nanosleep(&time, nullptr);
}
int clock_gettime(clockid_t clock, struct timespec *time) noexcept
{
    if (Machine::current() == nullptr)
        return static_cast<int>(call(SYS_clock_gettime, clock, reinterpret_cast<long>(time), 0, 0, 0, 0));
    constexpr std::uint64_t kBeginMs = 1000000000;
    const std::uint64_t now_ms = kBeginMs + (troubles_now == nullptr ? 0 : troubles_now->look());
    *time = {static_cast<time_t>(now_ms / 1000), static_cast<long>(now_ms % 1000) * 1000000};
    return 0;
}

// The system writes to the buffer.
ssize_t read(int file, void *buffer, std::size_t bytes)
{
    if (Machine *machine = Machine::current())
        machine->plain(buffer, bytes, true, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
    return call(SYS_read, file, reinterpret_cast<long>(buffer), static_cast<long>(bytes), 0, 0, 0);
}

// Random numbers of a run are the same in each.
ssize_t getrandom(void *buffer, std::size_t bytes, unsigned flags)
{
    if (Machine::current() == nullptr)
        return call(SYS_getrandom, reinterpret_cast<long>(buffer), static_cast<long>(bytes), flags, 0, 0, 0);
    std::memset(buffer, 0x5a, bytes);
    return static_cast<ssize_t>(bytes);
}

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes) noexcept
{
    if (Machine *machine = Machine::current()) machine->make_lock(mutex);
    return ORDER_LIBC(pthread_mutex_init)(mutex, attributes);
}
int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept
{
    Machine *machine = Machine::current();
    if (machine == nullptr) return ORDER_LIBC(pthread_mutex_lock)(mutex);
    machine->lock(mutex, is_recursive(mutex));
    return 0;
}
int pthread_mutex_trylock(pthread_mutex_t *mutex) noexcept
{
    Machine *machine = Machine::current();
    if (machine == nullptr) return ORDER_LIBC(pthread_mutex_trylock)(mutex);
    return machine->try_lock(mutex, is_recursive(mutex)) ? 0 : EBUSY;
}
int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept
{
    Machine *machine = Machine::current();
    if (machine == nullptr) return ORDER_LIBC(pthread_mutex_unlock)(mutex);
    machine->unlock(mutex);
    return 0;
}
int pthread_once(pthread_once_t *once, void (*routine)())
{
    Machine *machine = Machine::current();
    if (machine == nullptr) return ORDER_LIBC(pthread_once)(once, routine);
    constexpr pthread_once_t kDone = 2; // glibc's
    machine->lock(once, false);
    machine->free_at_fork(once); // as glibc's, which a child of fork begins again
    if (*once != kDone) {
        routine();
        *once = kDone;
    }
    machine->unlock(once);
    return 0;
}

// What pthread_atfork calls. A handler that a run registers goes with the run.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *library) noexcept
{
    if (pages_now != nullptr && (Machine::current() != nullptr || pages_now->is_active)) keys().at_fork(prepare, child);
    if (Machine::current() != nullptr) return 0;
    return ORDER_LIBC(__register_atfork)(prepare, parent, child, library);
}

// Thread-specific data is kept with the threads of a run.
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) noexcept
{
    return keys().create(*key, destructor);
}
int pthread_key_delete(pthread_key_t key) noexcept
{
    return keys().remove(key);
}
void *pthread_getspecific(pthread_key_t key) noexcept
{
    return keys().get(key);
}
int pthread_setspecific(pthread_key_t key, const void *value) noexcept
{
    return keys().set(key, value);
}
int tss_create(tss_t *key, tss_dtor_t destructor)
{
    return keys().create(*key, destructor) == 0 ? thrd_success : thrd_error;
}
void tss_delete(tss_t key)
{
    keys().remove(key);
}
void *tss_get(tss_t key)
{
    return keys().get(key);
}
int tss_set(tss_t key, void *value)
{
    return keys().set(key, value) == 0 ? thrd_success : thrd_error;
}
// C++ calls it for each thread_local object. Those of who starts the runs live as long as the process.
int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *)
{
    if (Machine::current() != nullptr) keys().at_end(destructor, object);
    return 0;
}

} // extern "C"
