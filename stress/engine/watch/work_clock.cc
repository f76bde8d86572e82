#include "engine/watch/work_clock.h"

#include <time.h>

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/watch/figures.h"

namespace stress {
namespace {

constexpr double kShareMin = 1.0 / 8;

std::uint64_t process_used_ns()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

} // namespace

WorkClock::WorkClock()
    : start_ns_(clock_ns()), looked_ns_(start_ns_), used_ns_(process_used_ns()), processors_(processors_available())
{}

void WorkClock::look()
{
    const std::uint64_t now_ns = clock_ns();
    const auto passed_ns = static_cast<double>(now_ns - looked_ns_);
    const unsigned runnable = others_runnable_count();
    if (runnable != 0) busy_ns_ += passed_ns;
    asked_ns_ += std::min(static_cast<double>(runnable), processors_) * passed_ns;
    looked_ns_ = now_ns;
}

std::uint64_t WorkClock::worked_ns() const
{
    const auto passed_ns = static_cast<double>(clock_ns() - start_ns_);
    const auto used_ns = static_cast<double>(process_used_ns() - used_ns_);
    const double lost_ns = used_ns >= asked_ns_ ? 0 : busy_ns_ * (1 - used_ns / asked_ns_);
    return static_cast<std::uint64_t>(std::max(passed_ns - lost_ns, passed_ns * kShareMin));
}

} // namespace stress
