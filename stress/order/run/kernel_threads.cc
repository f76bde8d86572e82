#include "order/run/kernel_threads.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "order/run/system.h"

namespace stress::order {
namespace {

KernelThreads *now = nullptr;

void futex(std::uint32_t *word, int operation, std::uint32_t value)
{
    system_call(SYS_futex, reinterpret_cast<long>(word), operation, static_cast<long>(value), 0, 0, 0);
}

} // namespace

KernelThreads::KernelThreads()
{
    now = this;
    if (pthread_key_create(&key_, destroy) == 0) return;
    std::fputs("hakmem-order: no key of pthread_key_create is left\n", stderr);
    std::exit(2);
}

void KernelThreads::begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned))
{
    Seat &seat = seats_[thread];
    seat.has_baton = 0;
    seat.body = body;
    seat.ended = ended;
    seat.rounds = 0;
    if (pthread_create(&seat.handle, nullptr, enter, &seat) == 0) return;
    std::fputs("hakmem-order: the system has no thread left\n", stderr);
    std::exit(2);
}

void *KernelThreads::enter(void *argument)
{
    auto &seat = *static_cast<Seat *>(argument);
    now->await(seat);
    pthread_setspecific(now->key_, &seat);
    seat.body(static_cast<unsigned>(&seat - now->seats_));
    return nullptr;
}

// libc calls destructors in rounds, by the age of their keys, while some key has a value. Ours is the youngest: in the last
// round, nothing comes behind it.
void KernelThreads::destroy(void *argument)
{
    auto &seat = *static_cast<Seat *>(argument);
    if (++seat.rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(now->key_, &seat);
        return;
    }
    seat.ended(static_cast<unsigned>(&seat - now->seats_));
}

void KernelThreads::await(Seat &seat)
{
    while (__atomic_exchange_n(&seat.has_baton, 0, __ATOMIC_ACQUIRE) == 0)
        futex(&seat.has_baton, FUTEX_WAIT_PRIVATE, 0);
}

void KernelThreads::go(unsigned to)
{
    Seat &from = seat_of(current_), &next = seat_of(to);
    current_ = to;
    __atomic_store_n(&next.has_baton, 1, __ATOMIC_RELEASE);
    futex(&next.has_baton, FUTEX_WAKE_PRIVATE, 1);
    await(from);
}

} // namespace stress::order
