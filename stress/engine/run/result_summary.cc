#include <fmt/core.h>
#include <fmt/format.h>

#include "engine/base/progress.h"
#include "engine/run/result.h"

namespace stress {

namespace {

std::string process_lines(const ProcessFigures &figures)
{
    std::string text;
    if (figures.forks != 0)
        text += fmt::format("  forks      {}, with another thread inside the allocator {}\n", figures.forks,
                            figures.forks_directed);
    if (figures.signals != 0)
        text += fmt::format("  signals    {}, inside the allocator {}\n", figures.signals, figures.signals_inside);
    if (figures.os_calls != 0)
        text += fmt::format("  os calls   {} trapped, {} made to fail\n", figures.os_calls, figures.os_failures);
    if (figures.limits != 0) text += fmt::format("  limits     {} of memory\n", figures.limits);
    if (figures.cancellations + figures.small_stacks + figures.destructor_rounds != 0)
        text += fmt::format("  threads    {} cancelled, {} on the smallest stack, {} destructor rounds\n",
                            figures.cancellations, figures.small_stacks, figures.destructor_rounds);
    if (figures.plugins != 0) text += fmt::format("  plugins    {} loaded\n", figures.plugins);
    return text;
}

std::string counts_line(const char *heading, const std::vector<CountOf> &counts)
{
    std::string text;
    for (const CountOf &of : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", of.name, of.count);
    return text.empty() ? "" : fmt::format("  {:<10} {}\n", heading, text);
}

}  // namespace

std::string result_summary(const Result &result)
{
    std::string text =
        fmt::format("{} on {}, {} threads{}{}\n", result.scenario, result.allocator, result.threads,
                    result.threads_started > result.threads ? fmt::format(" ({} started)", result.threads_started) : "",
                    result.check ? "" : ", unchecked");
    text += fmt::format("  ops        {} in {:.2f} s, {} ops/s\n", result.ops, result.seconds,
                        format_rate(result.ops_per_second()));
    text += fmt::format("  blocks     {} of {} bytes\n", result.blocks_allocated, result.bytes_allocated);
    text += counts_line("done", result.op_counts) + counts_line("cases", result.rule_cases);
    if (!result.claims.empty()) text += fmt::format("  claims     {}\n", fmt::join(result.claims, ", "));
    text += fmt::format("  peak live  {}\n", format_bytes(result.peak_live_bytes));
    text += fmt::format(
        "  peak rss   {}{}\n", format_bytes(result.peak_rss_bytes),
        result.memory_bound_bytes != 0 ? fmt::format(" (bound {})", format_bytes(result.memory_bound_bytes)) : "");
    text += fmt::format("  end rss    {}, {} after {:.2f} s\n", format_bytes(result.end_rss_bytes),
                        format_bytes(result.returned_rss_bytes), result.return_seconds);
    if (result.vma_count_peak != 0) text += fmt::format("  mappings   {}\n", result.vma_count_peak);
    if (!result.not_judged.empty()) text += fmt::format("  not judged {}\n", result.not_judged);
    if (!result.remains.empty()) text += fmt::format("  remains    {}\n", result.remains);
    text += process_lines(result.process);
    if (result.false_shared_lines.has_value())
        text += fmt::format("  shared     {} cache lines by two threads\n", *result.false_shared_lines);
    for (const FailureText &failure : result.failures)
        text += fmt::format("failure: {}: {}\n", failure.rule, failure.detail);
    if (!result.passed()) text += fmt::format("seed {}; repeat with: {}\n", result.seed, result.reproduce);
    text += fmt::format("verdict {}\n", result.passed() ? "pass" : "fail");
    return text;
}

}  // namespace stress
