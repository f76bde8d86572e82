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

void WorkTime::look(std::uint64_t now_ns, unsigned runnable)
{
    const auto passed_ns = static_cast<double>(now_ns - looked_ns_);
    if (runnable != 0) busy_ns_ += passed_ns;
    asked_ns_ += std::min(static_cast<double>(runnable), processors_) * passed_ns;
    looked_ns_ = now_ns;
}

std::uint64_t WorkTime::worked_ns(std::uint64_t now_ns, std::uint64_t used_ns) const
{
    const auto passed_ns = static_cast<double>(now_ns), used = static_cast<double>(used_ns);
    const double lost_ns = used >= asked_ns_ ? 0 : busy_ns_ * (1 - used / asked_ns_);
    return static_cast<std::uint64_t>(std::max(passed_ns - lost_ns, passed_ns * kShareMin));
}

WorkClock::WorkClock() : start_ns_(clock_ns()), used_ns_(process_used_ns()), time_(processors_available()) {}

void WorkClock::look()
{
    time_.look(clock_ns() - start_ns_, others_runnable_count());
}

std::uint64_t WorkClock::worked_ns() const
{
    return time_.worked_ns(clock_ns() - start_ns_, process_used_ns() - used_ns_);
}

} // namespace stress
