#include "explore/fibers/fiber.h"

#include <hakmem/validate.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
// switch_*.S
void *stress_fiber_switch(void **saved, void *stack);

// The allocator's thread-local variables, in one section; see base/policy.h.
extern unsigned char __start_hak_fiber[], __stop_hak_fiber[];
std::ptrdiff_t hak_fiber_offset = 0;

int *stress_fiber_errno();
long stress_fiber_syscall(long number, ...);
ssize_t stress_fiber_write(int file, const void *bytes, std::size_t size_bytes);

// Functions of the sanitizers; null if the program has none. No switch may be missed, or reports name wrong stacks.
[[gnu::weak]] void __sanitizer_start_switch_fiber(void **shadow, const void *stack, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void *start, std::size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void *shadow, const void **stack, std::size_t *bytes);
[[gnu::weak]] void *__tsan_get_current_fiber();
[[gnu::weak]] void *__tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void *fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}

namespace stress {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kSavedWords = 20;  // more than any switch_*.S pops
#ifdef __x86_64__
constexpr std::size_t kEntryWords = 7; // what it pops; an unwinder ends at the 0 behind
#else
constexpr std::size_t kEntryWords = kSavedWords;
#endif

Fibers *fibers_now = nullptr;

using Word [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

std::size_t variables_bytes()
{
    return static_cast<std::size_t>(__stop_hak_fiber - __start_hak_fiber);
}

// Copies word by word: memcpy would be checked by a sanitizer, which watches the gaps between the variables.
void copy_variables(unsigned char *to, const unsigned char *from)
{
    std::size_t i = 0;
    for (; i + sizeof(Word) <= variables_bytes(); i += sizeof(Word))
        *reinterpret_cast<volatile Word *>(to + i) = *reinterpret_cast<const Word *>(from + i);
    for (; i < variables_bytes(); ++i) const_cast<volatile unsigned char *>(to)[i] = from[i];
}

unsigned char *map(std::size_t bytes)
{
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start != MAP_FAILED) return static_cast<unsigned char *>(start);
    std::fputs("hakmem: no memory for the stack of a coroutine\n", stderr);
    std::exit(2);
}

void named_hook(const char *step)
{
    if (fibers_now != nullptr) fibers_now->named(step);
}

}  // namespace

stress_site Fibers::kLockWait = {"lock_wait", "", "", 0, 0, 0, 0};

Fibers::Fibers()
{
    pristine_ = map(variables_bytes());
    copy_variables(pristine_, __start_hak_fiber);
    for (Fiber &fiber : fibers_) {
        fiber.stack = map(kGuardBytes + kStackBytes);
        mprotect(fiber.stack, kGuardBytes, PROT_NONE);
        fiber.stack += kGuardBytes;
        // At the same offset within a cache line as the variables themselves.
        fiber.variables = map(variables_bytes() + 64) + reinterpret_cast<std::uintptr_t>(__start_hak_fiber) % 64;
        fiber.kept = map(variables_bytes());
        make(fiber);
        copy_variables(fiber.variables, pristine_);
    }
    forget();
    fibers_now = this;
    hak_sync_point_hook = named_hook;
}

Fibers::~Fibers()
{
    hak_sync_point_hook = nullptr;
    fibers_now = nullptr;
    for (Fiber &fiber : fibers_) {
        if (fiber.thread != nullptr) __tsan_destroy_fiber(fiber.thread);
        munmap(fiber.stack - kGuardBytes, kGuardBytes + kStackBytes);
        munmap(fiber.kept, variables_bytes());
        munmap(fiber.variables - reinterpret_cast<std::uintptr_t>(__start_hak_fiber) % 64, variables_bytes() + 64);
    }
    munmap(pristine_, variables_bytes());
}

void Fibers::on_point(FiberPoint *function, void *context)
{
    on_point_ = function;
    context_ = context;
}

void Fibers::ask_at(unsigned fiber, unsigned access)
{
    fibers_[fiber].asks_always = false;
    fibers_[fiber].until_asked = access;
}

// The first switch to the fiber pops the saved words and enters entry().
void Fibers::make(Fiber &fiber)
{
    auto **top = reinterpret_cast<void **>(fiber.stack + kStackBytes);
    void **words = top - kSavedWords - 2;  // a multiple of 16 bytes below the top
    for (void **word = words; word < top; ++word)
        *word = word < words + kEntryWords ? reinterpret_cast<void *>(&Fibers::entry) : nullptr;
    // On x86-64 a function expects the stack pointer 8 below a multiple of 16, because the return address lies there;
    // on aarch64 the twelfth word is read as the link register. See switch_*.S.
    fiber.stack_pointer = words;
}

void Fibers::begin(unsigned count)
{
    count_ = count;
    reports_ = 0;
    if (__tsan_get_current_fiber != nullptr) main_thread_ = __tsan_get_current_fiber();
    for (unsigned i = 0; i < count; ++i) {
        copy_variables(fibers_[i].variables, fibers_[i].kept);
        fibers_[i].step = "";
        fibers_[i].asks_always = true;
        if (__tsan_create_fiber == nullptr) continue;
        if (fibers_[i].thread != nullptr) __tsan_destroy_fiber(fibers_[i].thread);
        fibers_[i].thread = __tsan_create_fiber(0); // ordered after what its creator did
    }
}

// Orders what each fiber did before what the caller does next, by a switch there and back.
void Fibers::end()
{
    if (__tsan_switch_to_fiber == nullptr) return;
    for (unsigned i = 0; i < count_; ++i) {
        __tsan_switch_to_fiber(fibers_[i].thread, 0);
        __tsan_switch_to_fiber(main_thread_, 0);
    }
}

void Fibers::order_others()
{
    if (__tsan_switch_to_fiber == nullptr) return;
    for (unsigned i = 0; i < count_; ++i) {
        if (i == current_) continue;
        __tsan_switch_to_fiber(fibers_[i].thread, 1);
        __tsan_switch_to_fiber(fibers_[current_].thread, 0);
    }
}

void Fibers::renew(unsigned fiber)
{
    copy_variables(fibers_[fiber].variables, pristine_);
}

void Fibers::keep()
{
    for (Fiber &fiber : fibers_) copy_variables(fiber.kept, fiber.variables);
}

void Fibers::forget()
{
    counts_reports_ = false;
    for (Fiber &fiber : fibers_) copy_variables(fiber.kept, pristine_);
}

int Fibers::whose(const volatile void *address, std::uintptr_t &variable) const
{
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    for (unsigned i = 0; i < kMax; ++i) {
        const auto start = reinterpret_cast<std::uintptr_t>(fibers_[i].variables);
        if (place < start || place - start >= variables_bytes()) continue;
        variable = reinterpret_cast<std::uintptr_t>(__start_hak_fiber) + (place - start);
        return static_cast<int>(i);
    }
    return -1;
}

void Fibers::stop()
{
    leave();
}

void Fibers::abandon(unsigned fiber)
{
    Fiber &left = fibers_[fiber];
    if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(left.stack, kStackBytes);
    left.shadow = nullptr;
    left.busy = false;
    make(left);
}

void Fibers::call(unsigned fiber, void (*function)(void *), void *argument)
{
    fibers_[fiber].function = function;
    fibers_[fiber].argument = argument;
    fibers_[fiber].busy = true;
    enter(fiber);
}

void Fibers::resume(unsigned fiber)
{
    enter(fiber);
}

void Fibers::enter(unsigned fiber)
{
    Fiber &to = fibers_[fiber];
    current_ = fiber;
    hak_fiber_offset = to.variables - __start_hak_fiber;
    if (__sanitizer_start_switch_fiber != nullptr) __sanitizer_start_switch_fiber(&main_shadow_, to.stack, kStackBytes);
    if (to.thread != nullptr) __tsan_switch_to_fiber(to.thread, unordered_);
    stress_fiber_switch(&main_stack_pointer_, to.stack_pointer);
    if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(main_shadow_, nullptr, nullptr);
    hak_fiber_offset = 0;
    current_ = kMax;
}

void Fibers::leave()
{
    Fiber &from = fibers_[current_];
    if (__sanitizer_start_switch_fiber != nullptr)
        __sanitizer_start_switch_fiber(&from.shadow, main_stack_, main_stack_bytes_);
    if (from.thread != nullptr) __tsan_switch_to_fiber(main_thread_, unordered_);
    stress_fiber_switch(&from.stack_pointer, main_stack_pointer_);
    if (__sanitizer_finish_switch_fiber != nullptr)
        __sanitizer_finish_switch_fiber(from.shadow, &main_stack_, &main_stack_bytes_);
}

void Fibers::entry()
{
    Fibers *self = fibers_now;
    if (__sanitizer_finish_switch_fiber != nullptr)
        __sanitizer_finish_switch_fiber(nullptr, &self->main_stack_, &self->main_stack_bytes_);
    self->work();
}

void Fibers::work()
{
    for (;;) {
        Fiber &mine = fibers_[current_];
        mine.function(mine.argument);
        mine.busy = false;
        leave();
    }
}

// The question to the caller is not the fiber's work. For ThreadSanitizer, the main thread asks it.
void Fibers::point(stress_site &site, const volatile void *address)
{
    if (current_ == kMax || on_point_ == nullptr) return;
    void *thread = fibers_[current_].thread;
    if (thread != nullptr) __tsan_switch_to_fiber(main_thread_, 1);
    const bool stops = on_point_(context_, site, address);
    if (thread != nullptr) __tsan_switch_to_fiber(thread, 1);
    if (stops) leave();
}

void Fibers::named(const char *step)
{
    if (current_ == kMax) return;
    if (step[0] == 'l' && std::strcmp(step, "lock_wait") == 0) point(kLockWait, nullptr);
    else fibers_[current_].step = step;
}

} // namespace stress

void stress_fiber_point(stress_site *site, const volatile void *address)
{
    if (stress::fibers_now != nullptr && !stress::fibers_now->passes(*site)) stress::fibers_now->point(*site, address);
}

int *stress_fiber_errno()
{
    int *own = stress::fibers_now == nullptr ? nullptr : stress::fibers_now->own_errno();
    return own != nullptr ? own : &errno;
}

// Gives each coroutine's thread a number, by which the allocator identifies the user of a thread cache. When asked
// whether such a thread exists, says yes: each thread that ends reports it.
long stress_fiber_syscall(long number, ...)
{
    const unsigned fiber = stress::fibers_now == nullptr ? stress::Fibers::kMax : stress::fibers_now->current();
    constexpr long first = 1'000'000'000; // above all numbers that the kernel gives
    if (number == SYS_gettid && fiber != stress::Fibers::kMax) return first + fiber;
    if (number == SYS_getpid && fiber != stress::Fibers::kMax) return first;
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (long &argument : arguments) argument = va_arg(list, long);
    va_end(list);
    if (number == SYS_tgkill && arguments[1] >= first) return 0;
    return syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

ssize_t stress_fiber_write(int file, const void *bytes, std::size_t size_bytes)
{
    const std::string_view text(static_cast<const char *>(bytes), size_bytes);
    if (file != STDERR_FILENO || stress::fibers_now == nullptr || !stress::fibers_now->takes_report(text))
        return write(file, bytes, size_bytes);
    return static_cast<ssize_t>(size_bytes);
}
