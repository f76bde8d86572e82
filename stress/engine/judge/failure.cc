#include "engine/judge/failure.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace stress {

void FailureLog::add(const char *rule, Witness witness, const char *format, ...)
{
    const std::size_t index = count_.fetch_add(1, std::memory_order_relaxed);
    stop_.store(true, std::memory_order_relaxed);
    if (index >= kKept) return;

    Failure &failure = failures_[index];
    failure.rule = rule;
    va_list arguments;
    va_start(arguments, format);
    const int written = std::vsnprintf(failure.detail, sizeof failure.detail, format, arguments);
    va_end(arguments);
    const auto used = static_cast<std::size_t>(written < 0 ? 0 : written);
    if (used < sizeof failure.detail)
        std::snprintf(failure.detail + used, sizeof failure.detail - used, "; seen by thread %u at its op %" PRIu64,
                      witness.seat, witness.op);
    // release: publishes the text. Pairs with the acquire in size().
    complete_[index].store(true, std::memory_order_release);
}

std::size_t FailureLog::size() const
{
    std::size_t complete = 0;
    while (complete < kKept && complete_[complete].load(std::memory_order_acquire)) ++complete;
    return complete;
}

}  // namespace stress
