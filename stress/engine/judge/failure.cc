#include "engine/judge/failure.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

namespace stress {
namespace {

[[gnu::format(printf, 4, 0)]] void write(Failure &failure, const char *rule, Witness witness, const char *format,
                                         va_list arguments)
{
    failure.rule = rule;
    const int written = std::vsnprintf(failure.detail, sizeof failure.detail, format, arguments);
    const auto used = std::min(static_cast<std::size_t>(written < 0 ? 0 : written), sizeof failure.detail - 1);
    std::snprintf(failure.detail + used, sizeof failure.detail - used, "; seen by thread %u at its op %" PRIu64,
                  witness.seat, witness.op);
}

} // namespace

void FailureLog::add(const char *rule, Witness witness, const char *format, ...)
{
    const std::size_t index = count_.fetch_add(1, std::memory_order_relaxed);
    stop_.store(true, std::memory_order_relaxed);
    if (index >= kKept) return;

    va_list arguments;
    va_start(arguments, format);
    write(failures_[index], rule, witness, format, arguments);
    va_end(arguments);
    // release: publishes the text. Pairs with the acquire in size().
    complete_[index].store(true, std::memory_order_release);
}

void FailureLog::note(const char *rule, Witness witness, const char *format, ...)
{
    if (noting_.exchange(true, std::memory_order_relaxed)) return;
    va_list arguments;
    va_start(arguments, format);
    write(note_, rule, witness, format, arguments);
    va_end(arguments);
    // release: publishes the text. Pairs with the acquire in noted().
    noted_.store(true, std::memory_order_release);
}

const Failure *FailureLog::noted() const
{
    return noted_.load(std::memory_order_acquire) ? &note_ : nullptr;
}

std::size_t FailureLog::size() const
{
    std::size_t complete = 0;
    while (complete < kKept && complete_[complete].load(std::memory_order_acquire)) ++complete;
    return complete;
}

}  // namespace stress
