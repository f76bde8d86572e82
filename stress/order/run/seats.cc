#include "order/run/seats.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "order/run/system.h"

#ifdef __x86_64__
#include <asm/prctl.h>
#endif

// libc's: where a thread has the variables of a module.
struct tls_index {
    std::size_t module, offset;
};
extern "C" void *__tls_get_addr(tls_index *);

namespace stress::order {
namespace {

Seats *now = nullptr;

#ifdef __x86_64__
constexpr unsigned long kHasWriteBase = 2; // of AT_HWCAP2: the instruction wrfsbase

void *thread_pointer()
{
    void *pointer;
    __asm__("movq %%fs:0, %0" : "=r"(pointer));
    return pointer;
}

void set_thread_pointer(void *pointer)
{
    static const bool has_instruction = (getauxval(AT_HWCAP2) & kHasWriteBase) != 0;
    if (has_instruction) __asm__ volatile("wrfsbase %0" : : "r"(pointer) : "memory");
    else system_call(SYS_arch_prctl, ARCH_SET_FS, reinterpret_cast<long>(pointer), 0, 0, 0, 0);
}
#elif defined(__aarch64__)
void *thread_pointer()
{
    void *pointer;
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}

void set_thread_pointer(void *pointer)
{
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
}
#endif

void wait_while(const std::uint32_t &word, std::uint32_t value)
{
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == value)
        system_call(SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT_PRIVATE, static_cast<long>(value), 0, 0, 0);
}

} // namespace

Keys &keys()
{
    static Keys *all = new Keys; // never destroyed: destructors of other objects may ask
    return *all;
}

Seats::Seats(unsigned count, const ThreadLocal &variables) : fibers_(count), variables_(variables), seats_(count)
{
    now = this;
    main_pointer_ = thread_pointer();
    for (unsigned i = 0; i < count; ++i) {
        pthread_t handle;
        if (pthread_create(&handle, nullptr, sleep, &seats_[i]) != 0) {
            std::fputs("hakmem-order: the system has no thread left\n", stderr);
            std::exit(2);
        }
        wait_while(seats_[i].is_ready, 0);
    }
}

void *Seats::sleep(void *argument)
{
    auto &seat = *static_cast<Seat *>(argument);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    seat.pointer = thread_pointer();
    tls_index index = {now->variables_.module, 0};
    if (index.module != 0) seat.variables = __tls_get_addr(&index);
    __atomic_store_n(&seat.is_ready, 1, __ATOMIC_RELEASE);
    system_call(SYS_futex, reinterpret_cast<long>(&seat.is_ready), FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    wait_while(seat.is_ready, 1); // for ever
    return nullptr;
}

void Seats::begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned))
{
    Seat &seat = seats_[thread];
    seat.body = body;
    seat.ended = ended;
    if (seat.variables != nullptr) {
        std::memcpy(seat.variables, variables_.start, variables_.filled);
        std::memset(static_cast<unsigned char *>(seat.variables) + variables_.filled, 0,
                    variables_.bytes - variables_.filled);
    }
    keys().clear(thread);
    fibers_.begin(thread, enter, ended);
}

void Seats::enter(unsigned thread)
{
    now->seats_[thread].body(thread);
    keys().end();
}

void Seats::go(unsigned to)
{
    keys().enter(to);
    set_thread_pointer(to == kMain ? main_pointer_ : seats_[to].pointer);
    fibers_.go(to);
}

int Keys::create(unsigned &key, Destructor destructor)
{
    for (unsigned i = 0; i < kKeys; ++i) {
        if (table_[i].is_used) continue;
        table_[i] = {true, destructor};
        for (auto &values : values_) values[i] = nullptr;
        key = i;
        return 0;
    }
    return EAGAIN;
}

int Keys::remove(unsigned key)
{
    if (key >= kKeys || !table_[key].is_used) return EINVAL;
    table_[key] = {};
    return 0;
}

int Keys::set(unsigned key, const void *value)
{
    if (key >= kKeys || !table_[key].is_used) return EINVAL;
    values_[now_][key] = const_cast<void *>(value);
    return 0;
}

void Keys::clear(unsigned thread)
{
    for (void *&value : values_[thread]) value = nullptr;
    objects_[thread].clear();
}

// As libc does: objects from the last to the first, then rounds of keys while some key has a value.
void Keys::end()
{
    auto &objects = objects_[now_];
    while (!objects.empty()) {
        const auto [destructor, object] = objects.back();
        objects.pop_back();
        destructor(object);
    }
    bool has_value = true;
    for (int round = 0; has_value && round < PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
        has_value = false;
        for (unsigned i = 0; i < kKeys; ++i) {
            void *value = values_[now_][i];
            if (value == nullptr || !table_[i].is_used) continue;
            values_[now_][i] = nullptr;
            has_value = true;
            if (table_[i].destructor != nullptr) table_[i].destructor(value);
        }
    }
}

} // namespace stress::order
