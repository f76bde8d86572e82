// What the compiler calls in code that it compiled with -fsanitize=thread, in clang's and gcc's spelling: a function for
// each access and fence. ThreadSanitizer's own runtime has the same names, so a program links one of the two.
//
// Code that no thread of a run executes (constructors, set-up between runs) makes its accesses directly.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "order/run/machine.h"
#include "order/run/system.h"

using stress::order::Machine;
using stress::order::Memory;
using stress::order::Order;
using stress::order::Seen;
using stress::order::Value;

namespace {

std::uintptr_t place_of(void *return_address)
{
    return reinterpret_cast<std::uintptr_t>(return_address);
}

void plain(const volatile void *address, std::size_t bytes, bool is_write, void *place)
{
    if (Machine *machine = Machine::current()) machine->plain(address, bytes, is_write, place_of(place));
}

// The low bits say the order; clang sets others for hints.
Order order_of(int order)
{
    return static_cast<Order>(order & 7);
}

template <class T> T load(const volatile T *address, int order, void *place)
{
    if (Machine *machine = Machine::current())
        return static_cast<T>(machine->load(address, sizeof(T), order_of(order), place_of(place)).value);
    return *address;
}

template <class T> void store(volatile T *address, T value, int order, void *place)
{
    if (Machine *machine = Machine::current())
        machine->store(address, sizeof(T), static_cast<Value>(value), order_of(order), place_of(place));
    else *address = value;
}

template <class T> T update(volatile T *address, T operand, Memory::Update kind, int order, void *place)
{
    if (Machine *machine = Machine::current())
        return static_cast<T>(
            machine->update(address, sizeof(T), kind, static_cast<Value>(operand), order_of(order), place_of(place))
                .value);
    const T old = *address;
    const Value result = Memory::updated(kind, static_cast<Value>(old), static_cast<Value>(operand));
    *address = static_cast<T>(result);
    return old;
}

template <class T>
bool exchange_if(volatile T *address, T *expected, T desired, bool is_weak, int success, int failure, void *place)
{
    T old = *address;
    bool is_done = old == *expected;
    if (Machine *machine = Machine::current()) {
        const Seen seen =
            machine->compare_exchange(address, sizeof(T), static_cast<Value>(*expected), static_cast<Value>(desired),
                                      is_weak, order_of(success), order_of(failure), place_of(place));
        old = static_cast<T>(seen.value);
        is_done = seen.wrote;
    } else if (is_done) {
        *address = desired;
    }
    if (!is_done) *expected = old;
    return is_done;
}

} // namespace

// Where the subject makes the access, one instruction behind it.
#define ORDER_PLACE __builtin_return_address(0)

// The bodies are one line each: this is a list.
#define ORDER_ACCESS(bytes)                                    \
    void __tsan_read##bytes(void *address)                     \
    {                                                          \
        plain(address, bytes, false, ORDER_PLACE);             \
    }                                                          \
    void __tsan_write##bytes(void *address)                    \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }                                                          \
    void __tsan_unaligned_read##bytes(void *address)           \
    {                                                          \
        plain(address, bytes, false, ORDER_PLACE);             \
    }                                                          \
    void __tsan_unaligned_write##bytes(void *address)          \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }                                                          \
    void __tsan_volatile_read##bytes(void *address)            \
    {                                                          \
        plain(address, bytes, false, ORDER_PLACE);             \
    }                                                          \
    void __tsan_volatile_write##bytes(void *address)           \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }                                                          \
    void __tsan_unaligned_volatile_read##bytes(void *address)  \
    {                                                          \
        plain(address, bytes, false, ORDER_PLACE);             \
    }                                                          \
    void __tsan_unaligned_volatile_write##bytes(void *address) \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }                                                          \
    void __tsan_read_write##bytes(void *address)               \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }                                                          \
    void __tsan_unaligned_read_write##bytes(void *address)     \
    {                                                          \
        plain(address, bytes, true, ORDER_PLACE);              \
    }

#define ORDER_UPDATE(bits, T, name, kind)                                             \
    T __tsan_atomic##bits##_##name(volatile T *address, T operand, int order)         \
    {                                                                                 \
        return update<T>(address, operand, Memory::Update::kind, order, ORDER_PLACE); \
    }

#define ORDER_ATOMIC(bits, T)                                                                                          \
    T __tsan_atomic##bits##_load(const volatile T *address, int order)                                                 \
    {                                                                                                                  \
        return load<T>(address, order, ORDER_PLACE);                                                                   \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile T *address, T value, int order)                                          \
    {                                                                                                                  \
        store<T>(address, value, order, ORDER_PLACE);                                                                  \
    }                                                                                                                  \
    ORDER_UPDATE(bits, T, exchange, exchange)                                                                          \
    ORDER_UPDATE(bits, T, fetch_add, add)                                                                              \
    ORDER_UPDATE(bits, T, fetch_sub, sub)                                                                              \
    ORDER_UPDATE(bits, T, fetch_and, conj)                                                                             \
    ORDER_UPDATE(bits, T, fetch_or, disj)                                                                              \
    ORDER_UPDATE(bits, T, fetch_xor, exclusive)                                                                        \
    ORDER_UPDATE(bits, T, fetch_nand, nand)                                                                            \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T *address, T *expected, T desired, int success,        \
                                                      int failure)                                                     \
    {                                                                                                                  \
        return exchange_if<T>(address, expected, desired, false, success, failure, ORDER_PLACE);                       \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T *address, T *expected, T desired, int success,          \
                                                    int failure)                                                       \
    {                                                                                                                  \
        return exchange_if<T>(address, expected, desired, true, success, failure, ORDER_PLACE);                        \
    }                                                                                                                  \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T *address, T expected, T desired, int success, int failure) \
    {                                                                                                                  \
        exchange_if<T>(address, &expected, desired, false, success, failure, ORDER_PLACE);                             \
        return expected;                                                                                               \
    }

extern "C" {

void __tsan_init()
{
    ++stress::order::instrumented_begun;
}
void __tsan_func_entry(void *caller)
{
    if (Machine *machine = Machine::current()) machine->enter_function(place_of(caller));
}
void __tsan_func_exit()
{
    if (Machine *machine = Machine::current()) machine->leave_function();
}
// unwatched: this runtime takes the place of ThreadSanitizer's, so it defines what programs call to be ignored
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

ORDER_ACCESS(1)
ORDER_ACCESS(2)
ORDER_ACCESS(4)
ORDER_ACCESS(8)
ORDER_ACCESS(16)

// clang emits neither: a malloc that calls them announces what the block's next owner may do.
void __tsan_read_range(void *address, std::size_t bytes)
{
    if (Machine *machine = Machine::current()) machine->declare(address, bytes, false, place_of(ORDER_PLACE));
}
void __tsan_write_range(void *address, std::size_t bytes)
{
    if (Machine *machine = Machine::current()) machine->declare(address, bytes, true, place_of(ORDER_PLACE));
}
void __tsan_vptr_read(void **address)
{
    plain(address, sizeof *address, false, ORDER_PLACE);
}
void __tsan_vptr_update(void **address, void *)
{
    plain(address, sizeof *address, true, ORDER_PLACE);
}
void *__tsan_memcpy(void *to, const void *from, std::size_t bytes)
{
    plain(from, bytes, false, ORDER_PLACE);
    plain(to, bytes, true, ORDER_PLACE);
    return std::memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, std::size_t bytes)
{
    plain(from, bytes, false, ORDER_PLACE);
    plain(to, bytes, true, ORDER_PLACE);
    return std::memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int byte, std::size_t bytes)
{
    plain(to, bytes, true, ORDER_PLACE);
    return std::memset(to, byte, bytes);
}
// The compiler calls libc's for this one, and libc is not instrumented.
char *strcpy(char *to, const char *from) noexcept
{
    const std::size_t bytes = std::strlen(from) + 1;
    plain(from, bytes, false, ORDER_PLACE);
    plain(to, bytes, true, ORDER_PLACE);
    std::memcpy(to, from, bytes);
    return to;
}

ORDER_ATOMIC(8, std::uint8_t)
ORDER_ATOMIC(16, std::uint16_t)
ORDER_ATOMIC(32, std::uint32_t)
ORDER_ATOMIC(64, std::uint64_t)
ORDER_ATOMIC(128, Value)

void __tsan_atomic_thread_fence(int order)
{
    if (Machine *machine = Machine::current()) machine->fence(order_of(order), place_of(ORDER_PLACE));
}
// Orders a thread and its own signal handlers only. The compiler keeps that order before it calls this.
void __tsan_atomic_signal_fence(int) {}

} // extern "C"
