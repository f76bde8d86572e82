#include "engine/team/thread_life.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "engine/base/build.h"
#include "engine/base/rng.h"
#include "engine/team/thread_start.h"

namespace stress {
namespace {

constinit thread_local bool end_is_meant = false;
constinit thread_local void *report_stack = nullptr;

constexpr std::size_t kReportStackBytes = std::size_t{64} << 10;

void *exit_at_once(void *)
{
    end_is_meant = true;
    pthread_exit(nullptr);
}

// The smallest stack that pthread_create takes: PTHREAD_STACK_MIN, plus static thread-local storage and the thread's
// record, which it puts on the stack, plus a page for our own frames around a call of the subject.
std::size_t least_stack_bytes()
{
    using MinStack = std::size_t(const pthread_attr_t *);
    auto *min_stack = reinterpret_cast<MinStack *>(dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const std::size_t least = min_stack != nullptr
                                  ? min_stack(&attributes)
                                  : static_cast<std::size_t>(PTHREAD_STACK_MIN) + (std::size_t{64} << 10);
    pthread_attr_destroy(&attributes);
    return least;
}

}  // namespace

void thread_end(RenewHow how)
{
    end_is_meant = true;
    if (how == RenewHow::Exit) pthread_exit(nullptr);
    if (how == RenewHow::Cancel) pthread_testcancel();
}

bool thread_end_is_meant()
{
    return end_is_meant;
}

void thread_cancel_after(Seat &seat, std::uint64_t ops)
{
    if (seat.thread.cancel_after == 0) pthread_cancel(pthread_self());
    seat.thread.cancel_after = ops + 1;
}

void thread_cancel_draw(Seat &seat, std::uint64_t ops, std::uint64_t seed)
{
    Rng rng(seed, seat.counters.threads_started.load(std::memory_order_relaxed) << 16 | seat.index);
    seat.thread.cancel_in = ops == 0 ? 0 : rng.between(1, 2 * ops);
}

void thread_cancel_at_random(Seat &seat)
{
    if (seat.thread.cancel_after == 0) thread_cancel_after(seat, read(seat.counters.ops) % 20);
}

bool thread_cancel_is_due(Seat &seat)
{
    if (seat.thread.cancel_after == 0 || --seat.thread.cancel_after > 0) return false;
    seat.thread.cancel_after = 1;  // still pending
    seat.thread.renew = RenewHow::Cancel;
    return true;
}

CancelOff::CancelOff()
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
}

CancelOff::~CancelOff()
{
    pthread_setcancelstate(before_, nullptr);
}

std::size_t small_stack_bytes()
{
    static const std::size_t bytes = [] {
        // Not rounded up to whole pages: the extra bytes could hide an overflow.
        return least_stack_bytes();
    }();
    return bytes;
}

void small_stack_enter()
{
    if (kSanitized || report_stack != nullptr) return;
    void *start =
        mmap(nullptr, kReportStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (start == MAP_FAILED) return;
    report_stack = start;
    const stack_t stack{start, 0, kReportStackBytes};
    sigaltstack(&stack, nullptr);
}

void small_stack_leave()
{
    if (report_stack == nullptr) return;
    const stack_t none{nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
    munmap(report_stack, kReportStackBytes);
    report_stack = nullptr;
}

void thread_life_warm_up()
{
    static const bool done = [] {
        pthread_t thread;
        if (thread_create(thread, exit_at_once, nullptr) == 0) thread_join(thread);
        small_stack_bytes();
        return true;
    }();
    (void)done;
}

}  // namespace stress
