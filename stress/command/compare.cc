// compare: runs the same ops on two mallocs, each in its own process, and compares the outcomes op by op.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "command/arguments.h"
#include "command/command.h"
#include "command/setup.h"
#include "engine/base/libc.h"
#include "engine/base/progress.h"
#include "engine/run/options_parse.h"
#include "engine/run/scenario.h"
#include "program/op_syntax.h"
#include "program/program_file.h"
#include "program/run_log.h"

namespace stress {
namespace {

constexpr std::uint64_t kShown = 20;

struct Side {
    std::string allocator;
    std::string ending;  // how the process ended; empty: well
    RunLog log;
};

Program from_scenario(const Arguments &arguments, bool strict)
{
    std::vector<std::string> words{"hakmem-stress",
                                   arguments.scenario,
                                   "--schedule",
                                   "seeded",
                                   "--ops",
                                   std::to_string(arguments.ops),
                                   "--allocator",
                                   "system",
                                   strict ? "--strict" : "--no-strict"};
    std::vector<const char *> argv;
    for (const std::string &word : words) argv.push_back(word.c_str());
    const Options options = options_parse(static_cast<int>(argv.size()), argv.data()).options;
    Program program;
    program.threads = options.threads;
    program.seed = arguments.seed.value_or(42);
    program.laps = options.laps;
    program.ops_limit = options.ops;
    program.links_kept = true;
    Plan plan = scenario_find(arguments.scenario)->plan({options, program.seed, options.threads});
    std::vector<OpList> threads(options.threads);
    for (std::uint32_t i = 0; i < options.threads; ++i) {
        threads[i].resize(options.ops / options.threads + (i < options.ops % options.threads ? 1 : 0));
        std::size_t have = 0;
        for (std::size_t got = 1; got > 0 && have < threads[i].size(); have += got)
            got = plan.generators[i]->fill(threads[i].data() + have, threads[i].size() - have);
        threads[i].resize(have);
        for (Op &op : threads[i]) op.thread = static_cast<std::uint16_t>(i);
    }
    program.ops = links_merge(threads);
    return program;
}

// A file of the sequence, which both children inherit; -1: the system has none.
int file_of(const Program &program)
{
    const int fd = memfd_create("hakmem-stress-ops", 0);
    const Text bytes = program_encode(program);
    for (std::size_t done = 0; fd >= 0 && done < bytes.size();) {
        const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
        if (count <= 0) return -1;
        done += static_cast<std::size_t>(count);
    }
    return fd;
}

Side run_on(const std::string &allocator, int ops_fd, bool strict, const char *program_name)
{
    const int fd = run_log_file();
    const pid_t child = spawn_self(program_name,
                                   {"trace", std::to_string(fd), "/proc/self/fd/" + std::to_string(ops_fd),
                                    "--allocator", allocator, strict ? "--strict" : "--no-strict", "--watchdog", "10"},
                                   true);
    const std::string ending = child < 0 ? "exit 2" : ending_text(wait_for(child));
    return {allocator, ending, RunLog::open(fd)};
}

bool written(const OpOutcome &outcome)
{
    return outcome.aligned != 0 || outcome.sound != 0 || outcome.result != 0;
}

bool equal(const OpOutcome &a, const OpOutcome &b)
{
    return a.result == b.result && a.aligned == b.aligned && a.sound == b.sound && a.error == b.error;
}

std::string outcome_text(const OpOutcome &outcome)
{
    static constexpr const char *names[] = {"nothing", "NULL", "a block", "freed"};
    std::string text = names[outcome.result % 4];
    if (outcome.error != 0) {
        const char *name = error_name(outcome.error);
        text += std::string(outcome.result == OpOutcome::Freed ? ", errno changed to " : ", ") +
                (name != nullptr ? name : std::to_string(outcome.error));
    }
    if (outcome.aligned == 0) text += ", misaligned";
    if (outcome.sound == 0) text += ", judged wrong";
    return text;
}

// Counts for one kind of op.
struct KindCount {
    std::uint64_t ops = 0, given[2] = {}, null[2] = {}, different = 0;
};

struct Comparison {
    std::uint64_t different = 0, on_one[2] = {};
    KindCount kinds[kOpKindCount];
    std::string lines;
};

Comparison compare_ops(const Program &program, const Side &a, const Side &b)
{
    Comparison c;
    std::vector<std::size_t> next(program.threads);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const Op &op = program.ops[i];
        if (!op_has_slot(op.kind)) continue;
        const std::size_t index = next[op.thread]++;
        const OpOutcome outcomes[2] = {a.log.outcomes(op.thread)[index], b.log.outcomes(op.thread)[index]};
        const bool ran[2] = {written(outcomes[0]), written(outcomes[1])};
        KindCount &kind = c.kinds[static_cast<std::size_t>(op.kind)];
        if (ran[0] || ran[1]) ++kind.ops;
        for (int side = 0; side < 2; ++side) {
            kind.given[side] += ran[side] && outcomes[side].result == OpOutcome::Given;
            kind.null[side] += ran[side] && outcomes[side].result == OpOutcome::Null;
        }
        if (ran[0] != ran[1]) ++c.on_one[ran[0] ? 0 : 1];
        if (!ran[0] || !ran[1] || equal(outcomes[0], outcomes[1])) continue;
        ++kind.different;
        if (++c.different > kShown) continue;
        Op plain = op;
        plain.link = 0;
        c.lines += "op " + std::to_string(i + 1) + "  " + op_print(plain) + "\n    " + a.allocator + ": " +
                   outcome_text(outcomes[0]) + "\n    " + b.allocator + ": " + outcome_text(outcomes[1]) + "\n";
    }
    return c;
}

std::string ending_line(const Side &side)
{
    if (!side.log.ending().finished)
        return side.allocator + ": ended early: " + (side.ending == "exit 1" ? "hang" : side.ending) + "\n";
    const auto &ending = side.log.ending();
    return side.allocator + ": " + (ending.rule[0] == '\0' ? "pass" : std::string(ending.rule) + ": " + ending.detail) +
           "\n";
}

std::string counts_text(const Comparison &c, const Side &a, const Side &b)
{
    std::string text = "calls, blocks and NULLs on " + a.allocator + " | on " + b.allocator + "\n";
    for (std::size_t i = 0; i < kOpKindCount; ++i) {
        const KindCount &kind = c.kinds[i];
        if (kind.ops == 0) continue;
        std::string name(op_syntax(static_cast<OpKind>(i)).name);
        name.resize(20, ' ');
        text += "  " + name + std::to_string(kind.ops) + ", " + std::to_string(kind.given[0]) + " and " +
                std::to_string(kind.null[0]) + " | " + std::to_string(kind.given[1]) + " and " +
                std::to_string(kind.null[1]) +
                (kind.different > 0 ? "  (" + std::to_string(kind.different) + " differ)" : "") + "\n";
    }
    return text;
}

int report(const Program &program, const Side &a, const Side &b)
{
    const Comparison c = compare_ops(program, a, b);
    std::string text = c.lines;
    if (c.different > kShown) text += "... and " + std::to_string(c.different - kShown) + " more\n";
    text += counts_text(c, a, b);
    for (int side = 0; side < 2; ++side)
        if (c.on_one[side] > 0)
            text += std::to_string(c.on_one[side]) + " ops ran on " + (side == 0 ? a : b).allocator + " only\n";
    text += ending_line(a) + ending_line(b);
    const bool same_end = a.log.ending().finished && b.log.ending().finished &&
                          std::strcmp(a.log.ending().rule, b.log.ending().rule) == 0;
    const bool same = c.different == 0 && c.on_one[0] == 0 && c.on_one[1] == 0 && same_end;
    text += same ? "verdict equal\n" : "verdict different\n";
    write_text(STDOUT_FILENO, text);
    return same ? 0 : 1;
}

}  // namespace

int compare_main(int argc, char **argv)
{
    const Arguments arguments = arguments_parse(argc, argv);
    if (!arguments.run) return arguments_refused(arguments);
    const bool strict =
        arguments.strict.value_or(strict_default(arguments.allocator) && strict_default(arguments.allocator_b));
    Program program;
    if (arguments.file.empty()) {
        program = from_scenario(arguments, strict);
    } else {
        if (std::string fault = program_read(arguments.file, program); !fault.empty()) return bad_input(fault);
        std::string note;
        program.ops = repeats_expand(program.ops, note);
        if (!note.empty()) write_text(STDERR_FILENO, "hakmem-stress: '" + arguments.file + "': " + note + "\n");
        program.schedule = Schedule::Seeded;
        if (arguments.seed.has_value()) program.seed = *arguments.seed;
    }
    program.check = true;
    program.expected = {};
    const int ops_fd = file_of(program);
    if (ops_fd < 0) return bad_input("cannot make a shared file for the ops (memfd_create)");
    write_text(STDOUT_FILENO, "seed " + std::to_string(program.seed) + "\n");
    const Side a = run_on(arguments.allocator, ops_fd, strict, argv[0]);
    const Side b = run_on(arguments.allocator_b, ops_fd, strict, argv[0]);
    for (const Side *side : {&a, &b})
        if (side->ending == "exit 2" || !side->log.ok())
            return bad_input("cannot run on '" + side->allocator + "' (" + side->ending + "); try: hakmem-stress " +
                             arguments.scenario + " --allocator " + side->allocator);
    return report(program, a, b);
}

}  // namespace stress
