#include "order/contention/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/base/file.h"
#include "order/contention/run.h"
#include "order/malloc/report.h"

namespace stress::order {
namespace {

auto multiple_of(unsigned unit)
{
    return [unit](const std::string &text) {
        return std::strtoul(text.c_str(), nullptr, 10) % unit == 0 ? ""
                                                                   : fmt::format("{} is no multiple of {}", text, unit);
    };
}

double each(std::uint64_t count, std::uint64_t operations)
{
    return static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(operations, 1));
}

std::string contention_row(const Pattern &pattern, unsigned threads, const ContentionResult &result)
{
    if (!result.failure.empty()) return fmt::format("{:12} {:>7}  FAILED: {}", pattern.name, threads, result.failure);
    const Contention &counts = result.counts;
    const auto per = [&](std::uint64_t count) { return each(count, counts.operations); };
    return fmt::format("{:12} {:>7} {:>10.4f} {:>9.4f} {:>8.4f} {:>10.4f} {:>8.4f} {:>8.4f} {:>9.1f} {:>10}",
                       pattern.name, threads, per(counts.malloc.transfers()), per(counts.program.transfers()),
                       per(counts.rmws), per(counts.failed_cas), per(counts.waits),
                       per(counts.malloc.false_sharing + counts.program.false_sharing), per(counts.accesses),
                       counts.operations);
}

std::string contention_json(const Pattern &pattern, unsigned threads, const ContentionResult &result)
{
    const Contention &counts = result.counts;
    return fmt::format(R"({{"pattern": "{}", "threads": {}, "operations": {}, "fetches": {}, "upgrades": {}, )"
                       R"("program_fetches": {}, "program_upgrades": {}, "rmws": {}, "failed_cas": {}, "waits": {}, )"
                       R"("false_sharing": {}, "program_false_sharing": {}, "accesses": {}, "failure": {}}})",
                       pattern.name, threads, counts.operations, counts.malloc.fetches, counts.malloc.upgrades,
                       counts.program.fetches, counts.program.upgrades, counts.rmws, counts.failed_cas, counts.waits,
                       counts.malloc.false_sharing, counts.program.false_sharing, counts.accesses,
                       result.failure.empty() ? "null" : '"' + result.failure + '"');
}

} // namespace

CLI::App *contention_options(CLI::App &app, ContentionOptions &options)
{
    CLI::App *contention = app.add_subcommand("contention", "counts what the threads of a malloc cost each other");
    contention->add_option("--allocator", options.allocator, "FILE: a shared library, compiled with -fsanitize=thread");
    contention->add_option("--pattern", options.pattern, "NAME or all")->capture_default_str();
    contention->add_option("--threads", options.threads, "even numbers, with commas in between; default: 2,8,64,256")
        ->delimiter(',')
        ->check(CLI::Range(2U, kCountedMax))
        ->check(multiple_of(2));
    contention->add_option("--seed", options.seed, "of the schedule and of what is allocated")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    contention->add_option("--warm", options.warm, "operations of each thread before it counts: a multiple of 500")
        ->capture_default_str()
        ->check(CLI::Range(0U, 1000000U))
        ->check(multiple_of(Work::kEach));
    contention->add_option("--json", options.json, "FILE, or - for no table");
    contention->add_flag("--places", options.places, "the places in the malloc's code that move most lines");
    contention->add_flag("--list", options.list, "list the patterns");
    return contention;
}

std::string contention_run(ContentionOptions &options, const Subject &subject)
{
    if (options.list) {
        for (const Pattern &pattern : patterns()) fmt::print("{:12} {}\n", pattern.name, pattern.what);
        return "";
    }
    OwnHeaps heaps;
    subject_find("hak_heap_new", heaps.make);
    subject_find("hak_heap_malloc", heaps.malloc);
    const bool prints = options.json != "-";
    unsigned run = 0, failed = 0;
    std::string rows;
    if (prints)
        fmt::print("{:12} {:>7} {:>10} {:>9} {:>8} {:>10} {:>8} {:>8} {:>9} {:>10}\n", "pattern", "threads",
                   "transfers", "program's", "rmws", "failed_cas", "waits", "false", "accesses", "operations");
    for (const Pattern &pattern : patterns()) {
        if (options.pattern != "all" && options.pattern != pattern.name) continue;
        run++;
        if (pattern.needs_heaps && (heaps.make == nullptr || heaps.malloc == nullptr)) {
            if (prints) fmt::print("{:12} skipped: this malloc has no hak_heap_new\n", pattern.name);
            continue;
        }
        for (const unsigned threads : options.threads) {
            const ContentionResult result =
                count_contention(subject, heaps, pattern, {threads, options.seed, options.warm});
            failed += !result.failure.empty();
            rows += (rows.empty() ? "" : ",\n ") + contention_json(pattern, threads, result);
            if (!prints) continue;
            fmt::print("{}\n", contention_row(pattern, threads, result));
            if (options.places) fmt::print("{}", report_with_names(result.places));
            std::fflush(stdout);
        }
    }
    if (run == 0) return "there is no pattern '" + options.pattern + "': --list shows them all";
    if (!options.json.empty()) {
        if (const std::string error = result_write(options.json, "[" + rows + "]\n"); !error.empty()) return error;
    }
    options.status = failed == 0 ? 0 : 1;
    return "";
}

} // namespace stress::order
