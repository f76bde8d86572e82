#include <fmt/core.h>

#include "engine/progress.h"
#include "engine/result.h"

namespace stress {

std::string result_summary(const Result &result)
{
    std::string text = fmt::format("{} on {}, {} threads{}{}\n", result.scenario, result.allocator, result.threads,
                                   result.threads_started > result.threads
                                       ? fmt::format(" ({} started)", result.threads_started)
                                       : "",
                                   result.check ? "" : ", unchecked");
    text += fmt::format("  ops        {} in {:.2f} s, {} ops/s\n", result.ops, result.seconds,
                        format_rate(result.ops_per_second()));
    text += fmt::format("  peak live  {}\n", format_bytes(result.peak_live_bytes));
    text += fmt::format("  peak rss   {}{}\n", format_bytes(result.peak_rss_bytes),
                        result.memory_bound_bytes != 0
                            ? fmt::format(" (bound {})", format_bytes(result.memory_bound_bytes))
                            : "");
    text += fmt::format("  end rss    {}\n", format_bytes(result.end_rss_bytes));
    for (const FailureText &failure : result.failures)
        text += fmt::format("failure: {}: {}\n", failure.rule, failure.detail);
    if (!result.passed()) text += fmt::format("seed {}; repeat with: {}\n", result.seed, result.reproduce);
    text += fmt::format("verdict {}\n", result.passed() ? "pass" : "fail");
    return text;
}

}  // namespace stress
