#include "order/run/fibers.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

extern "C" void *stress_fiber_switch(void **saved, void *stack); // explore/fibers/switch_*.S

namespace stress::order {
namespace {

constexpr std::size_t kStackBytes = 256 << 10, kGuardBytes = 64 << 10;
constexpr std::size_t kSavedWords = 20; // more than any switch_*.S pops

#ifdef __x86_64__
constexpr std::size_t kEntryWords = 7; // what it pops; an unwinder ends at the 0 behind
#else
constexpr std::size_t kEntryWords = kSavedWords;
#endif

Fibers *now = nullptr;

} // namespace

Fibers::Fibers(unsigned count) : fibers_(count)
{
    for (Fiber &fiber : fibers_) {
        void *start = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED || mprotect(start, kGuardBytes, PROT_NONE) != 0) {
            std::fputs("hakmem: no memory for the stack of a coroutine\n", stderr);
            std::exit(2);
        }
        fiber.stack = static_cast<unsigned char *>(start) + kGuardBytes;
    }
    now = this;
}

Fibers::~Fibers()
{
    now = nullptr;
    for (Fiber &fiber : fibers_) munmap(fiber.stack - kGuardBytes, kGuardBytes + kStackBytes);
}

void Fibers::begin(unsigned thread, void (*body)(unsigned), void (*ended)(unsigned))
{
    fibers_[thread].body = body;
    fibers_[thread].ended = ended;
    // The first switch to it pops the saved words and enters enter(). See explore/fibers/fiber.cc for the alignment.
    auto **top = reinterpret_cast<void **>(fibers_[thread].stack + kStackBytes);
    void **words = top - kSavedWords - 2;
    for (void **word = words; word < top; ++word)
        *word = word < words + kEntryWords ? reinterpret_cast<void *>(&Fibers::enter) : nullptr;
    fibers_[thread].stack_pointer = words;
}

void Fibers::enter()
{
    const unsigned self = now->current_;
    now->fibers_[self].body(self);
    now->fibers_[self].ended(self);
    std::abort(); // it ends by go()
}

void Fibers::go(unsigned to)
{
    void **saved = current_ == kMain ? &main_stack_pointer_ : &fibers_[current_].stack_pointer;
    current_ = to;
    stress_fiber_switch(saved, to == kMain ? main_stack_pointer_ : fibers_[to].stack_pointer);
}

} // namespace stress::order
