// hakmem-bench: timed loops of malloc and free. It calls the malloc of the process, which LD_PRELOAD can replace, as
// ci/bench does. Exit status: 0; 1 if something went wrong during a run; 2 for bad input.
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "bench/growth.h"
#include "bench/output.h"
#include "engine/base/cli_numbers.h"

namespace {

using namespace bench;

struct Options {
    std::string row;
    std::string json = "-";
    Plan plan;
    RssPlan rss{256, 2000, 1};
    GrowthPlan growth;
    CellPlan cell;
    CLI::Option *threads = nullptr, *ops = nullptr;
    std::uint64_t handover_pairs = Plan().handover_pairs;
    bool list_json = false, turns = false;
};

int refuse(const std::string &text)
{
    std::fprintf(stderr, "hakmem-bench: %s\n", text.c_str());
    return 2;
}

int fail(const std::string &text)
{
    std::fprintf(stderr, "hakmem-bench: %s\n", text.c_str());
    return 1;
}

int unknown(const std::string &row)
{
    return refuse("there is no row '" + row + "'; see hakmem-bench list");
}

int run_row(const Options &options)
{
    const Row *const row = row_find(options.row);
    if (row == nullptr) return unknown(options.row);
    const Plan &given = options.plan;
    const std::uint32_t threads = options.threads->count() == 0 ? row->threads : given.threads;
    if (threads % row->threads_step != 0)
        return refuse("--threads: " + options.row + " takes a multiple of " + std::to_string(row->threads_step) +
                      ", not " + std::to_string(threads));
    Plan plan = plan_of(*row, threads, options.ops->count() == 0 ? row->ops : given.ops, given.seed);
    plan.handover_pairs = options.handover_pairs;
    plan.turns = options.turns;
    if (plan.turns) plan.handover = Handover::kInTurn;
    const double seconds = row->run(plan);
    const std::string fault = write_result(options.json, result_json(*row, plan, seconds));
    return fault.empty() ? 0 : fail(fault);
}

// Runs the program hakmem-bench-tiny beside this one.
int run_tiny()
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
    if (length <= 0) return fail(std::string("/proc/self/exe: ") + std::strerror(errno));
    const std::string tiny = std::string(path, static_cast<std::size_t>(length)) + "-tiny";
    execl(tiny.c_str(), tiny.c_str(), static_cast<char *>(nullptr));
    return fail("cannot run " + tiny + ": " + std::strerror(errno));
}

int run_rss(const Options &options)
{
    const RssRow *const row = rss_row_find(options.row);
    if (row == nullptr) return unknown(options.row);
    if (row->run == nullptr) return run_tiny();
    const RssFigures figures = row->run(options.rss);
    const std::string fault = write_result(options.json, rss_json(*row, options.rss, figures));
    return fault.empty() ? 0 : fail(fault);
}

int run_growth(const Options &options)
{
    const std::optional<std::uint64_t> calls = growth_run(options.growth);
    if (!calls) return refuse("there is no pattern '" + options.growth.pattern + "'");
    const std::string fault = write_result("-", "{\"calls\": " + std::to_string(*calls) + "}\n");
    return fault.empty() ? 0 : fail(fault);
}

int run_cell(const Options &options)
{
    const std::string refusal = cell_refusal(options.cell);
    if (!refusal.empty()) return refuse(refusal);
    const CellFigures figures = cell_run(options.cell);
    const std::string fault = write_result(options.json, cell_json(options.cell, figures));
    return fault.empty() ? 0 : fail(fault);
}

int run_list(const Options &options)
{
    const std::string fault = write_result("-", options.list_json ? rows_json() : rows_text());
    return fault.empty() ? 0 : fail(fault);
}

// Prints which library the calls of this process reach. The loader may ignore what LD_PRELOAD names, or that library
// may not define these functions.
int run_where()
{
    std::string text;
    for (const char *name : {"malloc", "free"}) {
        Dl_info info;
        if (dladdr(dlsym(RTLD_DEFAULT, name), &info) == 0)
            return fail(std::string("no library says that it has ") + name);
        text += std::string(name) + " " + info.dli_fname + "\n";
    }
    const std::string fault = write_result("-", text);
    return fault.empty() ? 0 : fail(fault);
}

void add_options(CLI::App &run, CLI::App &rss, CLI::App &growth, CLI::App &cell, Options &options)
{
    using stress::whole_number;
    run.add_option("row", options.row, "a row of hakmem-bench list")->required();
    options.threads = run.add_option("--threads", options.plan.threads, "threads of the row (default: the row's own)")
                          ->check(whole_number(1, 1024));
    options.ops =
        run.add_option("--ops", options.plan.ops, "pairs of malloc and free in the timed part, all threads together")
            ->check(whole_number(1, std::uint64_t{1} << 53));
    run.add_option("--handover", options.handover_pairs,
                   "pairs after which a thread of larson hands on (default 20000)")
        ->check(whole_number(1, std::uint64_t{1} << 53));
    run.add_flag("--turns", options.turns, "the threads take turns, so that counts of instructions repeat");
    run.add_option("--seed", options.plan.seed, "decides sizes and order (default 1)")
        ->check(whole_number(0, UINT64_MAX));
    run.add_option("--json", options.json, "where the result goes; - is stdout (default)")->type_name("FILE");

    growth.add_option("pattern", options.growth.pattern, "a pattern of stress/bench/growth.cc")->required();
    growth.add_option("--live", options.growth.live, "how many of what the pattern grows")
        ->check(whole_number(1, 1 << 30));
    growth.add_option("--calls", options.growth.calls, "calls after that")->check(whole_number(1, 1 << 30));
    growth.add_option("--from", options.growth.from, "the first call that is marked")->check(whole_number(0, 1 << 30));
    growth.add_option("--to", options.growth.to, "the call behind the last")->check(whole_number(1, 1 << 30));
    growth.add_option("--mark", options.growth.mark, "calls from one mark to the next")
        ->check(whole_number(1, 1 << 30));

    cell.add_option("pattern", options.cell.pattern, "a pattern of hakmem-bench list")->required();
    cell.add_option("--size", options.cell.size, "bytes of a block (default 64)")->check(whole_number(1, 1 << 30));
    cell.add_option("--threads", options.cell.threads, "a number that the pattern has (default 1)")
        ->check(whole_number(1, 1024));
    cell.add_option("--span-ms", options.cell.span_ms, "about what the calls should take (default 40)")
        ->check(whole_number(1, 1000));
    cell.add_flag("--calls", options.cell.calls, "time each call, for the worst one");
    cell.add_option("--json", options.json, "where the result goes; - is stdout (default)")->type_name("FILE");

    rss.add_option("row", options.row, "a memory row of hakmem-bench list")->required();
    rss.add_option("--mib", options.rss.mib, "live set in MiB (default 256)")->check(whole_number(1, 1 << 20));
    rss.add_option("--wait-ms", options.rss.wait_ms, "from the last free to the last look (default 2000)")
        ->check(whole_number(0, 3600000));
    rss.add_option("--seed", options.rss.seed, "decides sizes (default 1)")->check(whole_number(0, UINT64_MAX));
    rss.add_option("--json", options.json, "where the result goes; - is stdout (default)")->type_name("FILE");
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Times loops of malloc and free of the process.", "hakmem-bench");
    app.require_subcommand(1);
    CLI::App &list = *app.add_subcommand("list", "each row: its threads, what it does, whose idea it is");
    list.add_flag("--json", options.list_json, "as JSON");
    CLI::App &where = *app.add_subcommand("where", "the library that malloc and free of this process are in");
    CLI::App &run = *app.add_subcommand("run", "one row: nanoseconds for a malloc and a free, as JSON");
    CLI::App &rss = *app.add_subcommand("rss", "one memory row: KiB at named moments, as JSON");
    CLI::App &growth =
        *app.add_subcommand("growth", "one pattern of ci/lint/counts growth, with marks for callgrind and strace");
    CLI::App &cell =
        *app.add_subcommand("cell", "one cell of ci/bench surface: what a malloc and a free take, as JSON");
    add_options(run, rss, growth, cell, options);
    try {
        stress::parse_strictly(app, argc, argv);
    } catch (const CLI::CallForHelp &) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    } catch (const CLI::ParseError &error) {
        return refuse(std::string(error.what()) + "; see hakmem-bench --help");
    }
    if (list.parsed()) return run_list(options);
    if (where.parsed()) return run_where();
    if (growth.parsed()) return run_growth(options);
    if (cell.parsed()) return run_cell(options);
    return run.parsed() ? run_row(options) : run_rss(options);
}
