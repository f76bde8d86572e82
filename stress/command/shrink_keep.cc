// shrink --keep: makes a file of ops as small as possible that still costs more on one malloc than on another.
#include "command/shrink_keep.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "command/keep.h"
#include "command/setup.h"
#include "engine/base/clock.h"
#include "engine/base/progress.h"
#include "engine/base/verdict.h"
#include "program/minimise.h"
#include "program/program_file.h"

namespace stress {
namespace {

constexpr std::size_t kFewOps = 20;
constexpr std::uint64_t kMoreTries = 60;

// Smaller differences are what a process varies by.
double difference_min(Cost cost)
{
    switch (cost) {
    case Cost::Rss: return 1 << 20;
    case Cost::Time: return 0.002;
    case Cost::Faults: return 128;
    case Cost::Syscalls: return 16;
    case Cost::Instructions: return 10'000;
    }
    return 0;
}

class Comparer {
  public:
    Comparer(const char *program_name, const std::string &allocator, const Keep &keep, std::string &fault)
        : keep_(keep), allocator_(allocator), ours_(program_name, allocator, keep.cost, fault),
          theirs_(program_name, keep.allocator, keep.cost, fault_b_)
    {
        if (fault.empty()) fault = fault_b_;
    }

    std::uint64_t tries = 0;
    double ours = 0, theirs = 0; // of the last program that holds

    bool holds(const Program &program)
    {
        ++tries;
        const std::optional<double> a = ours_.measure(program);
        if (!a.has_value()) return fails_on(allocator_);
        seen_ = "the cost is " + cost_text(keep_.cost, *a) + ", and one below " +
                cost_text(keep_.cost, difference_min(keep_.cost)) + " counts as none";
        if (*a < difference_min(keep_.cost)) return false;
        const std::optional<double> b = theirs_.measure(program);
        if (!b.has_value()) return fails_on(keep_.allocator);
        seen_ = "the cost is " + figures(*a, *b);
        if (*a <= keep_.factor * *b || *a - *b < difference_min(keep_.cost)) return false;
        ours = *a;
        theirs = *b;
        return true;
    }

    const std::string &seen() const { return seen_; }

    std::string figures(double a, double b) const
    {
        std::string ratio = std::to_string(a / std::max(b, 1e-9));
        ratio.resize(std::min<std::size_t>(ratio.size(), ratio.find('.') + 3));
        return cost_text(keep_.cost, a) + " against " + cost_text(keep_.cost, b) + " (" +
               (b <= 0 ? std::string("nothing there") : ratio + "x") + ")";
    }

  private:
    bool fails_on(const std::string &allocator)
    {
        seen_ = "it does not run to its end on " + allocator;
        return false;
    }

    Keep keep_;
    std::string allocator_, fault_b_, seen_;
    CostMeter ours_, theirs_;
};

// Without what the costs do not depend on. The system's schedule, so that threads run as they would.
Program plain(Program program)
{
    program.check = false;
    program.schedule = Schedule::Os;
    program.laps = 1;
    program.ops_limit = 0;
    program.rule.clear();
    program.allocator.clear();
    program.expected = {};
    std::erase_if(program.ops, [](const Op &op) { return op.kind == OpKind::Fork; });
    return program;
}

int write_kept(const Program &program, const Arguments &arguments, const std::string &why)
{
    const std::string name = arguments.name.empty() ? "keep" : arguments.name;
    const std::string path = (arguments.output.empty() ? "." : arguments.output) + "/" + name + ".txt";
    const Text text = program_print(program);
    const auto first_line = std::find(text.begin(), text.end(), '\n') + 1;
    const std::string comment = "# keeps " + arguments.keep + " on " + arguments.allocator + ": " + why + "\n";
    std::string out(text.begin(), first_line);
    out += comment;
    out.append(first_line, text.end());
    if (std::string fault = program_write(path, out); !fault.empty()) {
        verdict_reached("fail");
        result_lost("-o: " + fault);
        return kExitLost;
    }
    constexpr std::size_t ops_shown_max = 40;
    if (program.ops.size() <= ops_shown_max) write_text(STDOUT_FILENO, out);
    write_text(STDOUT_FILENO, "shrink: wrote " + path + "\n");
    return 0;
}

} // namespace

int shrink_keeping(Program program, const Arguments &arguments, const char *program_name)
{
    const std::optional<Keep> keep = keep_parse(arguments.keep);
    std::string fault;
    Comparer comparer(program_name, arguments.allocator, *keep, fault);
    if (!fault.empty()) return bad_input("--keep: " + fault);
    const std::size_t ops_before = program.ops.size();
    program = plain(std::move(program));
    if (!comparer.holds(program)) {
        write_text(STDOUT_FILENO, "nothing to shrink: " + arguments.file + " does not show " + arguments.keep + ": " +
                                      comparer.seen() + "\n");
        return 1;
    }
    write_text(STDOUT_FILENO, "shrink: " + comparer.seen() + "\n");
    const std::uint64_t end_ns = clock_ns() + static_cast<std::uint64_t>(arguments.seconds * 1e9);
    std::uint64_t said_ns = 0, tries_then = 0;
    std::size_t least_ops = program.ops.size();
    // A few lines are enough: their sizes matter less than time, and costs vary too much to polish them.
    const auto enough = [&] {
        return clock_ns() > end_ns || (least_ops <= kFewOps && comparer.tries - tries_then > kMoreTries);
    };
    const auto say = [&](const Program &best) {
        if (best.ops.size() < least_ops) {
            least_ops = best.ops.size();
            tries_then = comparer.tries;
        }
        if (clock_ns() - said_ns < 1'000'000'000) return;
        said_ns = clock_ns();
        write_text(STDOUT_FILENO, "shrink: " + std::to_string(ops_before) + " -> " + std::to_string(best.ops.size()) +
                                      " ops, " + std::to_string(comparer.tries) + " tries\n");
    };
    program =
        minimise(std::move(program), {[&](const Program &trial) { return comparer.holds(trial); }, say, enough, true});
    said_ns = 0;
    say(program);
    if (clock_ns() > end_ns) write_text(STDOUT_FILENO, "shrink: the time is over; --seconds allows for more\n");
    if (!comparer.holds(program)) write_text(STDOUT_FILENO, "shrink: in a last try it did not show: the cost varies\n");
    return write_kept(program, arguments, comparer.figures(comparer.ours, comparer.theirs));
}

} // namespace stress
