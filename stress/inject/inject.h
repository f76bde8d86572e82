// Faults from outside, one after another, in runs of each scenario:
//
// - calls: the run's calls to the system for memory are counted; then call 1, 2, ... fails, once and for ever, each in
//   a run of its own, until a run passes untouched.
// - space: the process may map only a little more than it has, twice as much in each run, until nothing is refused.
// - signals: each thread is interrupted every so many microseconds, in the harnesses.
//
// Every run judges what any run does, and with memory refused also that requests succeed again when it is not, and that
// no more is in use at its end than without a fault; where that cannot be seen, the scenario's line says why. Each is a
// child of this process, forked before the first op, so all begin with the same heap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/injection.h"
#include "engine/run/options.h"
#include "engine/subject/support.h"

namespace stress::inject {

struct Settings {
    std::string kind; // "calls", "space", "signals"
    std::vector<std::string> scenarios; // names that exist
    std::string allocator;
    Support support;
    std::uint64_t seed = 0;
    std::uint32_t threads = 3;
    std::uint64_t ops = 0; // 0: as suits
    std::uint64_t calls_max = 0; // ops are halved until a run makes no more calls
    double seconds = 1; // of each run with signals
    std::uint64_t signal_us = 100;
    double watchdog_seconds = 20;
    std::optional<Schedule> schedule; // none: seeded, or the system's where a seeded run can prove nothing
    std::uint64_t call = 0; // not 0: this call alone
    bool for_ever = false; // with it: and all after it
    std::uint64_t limit_bytes = 0; // not 0: this limit alone
};

// What is in use at the end of a run beyond what was at its start, by the books of a subject that shows them.
struct Kept {
    std::int64_t blocks = 0, bytes = 0;
};

// What a child tells of its run; see run_once.
struct Outcome {
    std::string failure; // "RULE: DETAIL", or how the process ended; empty: the run passed
    std::string skip; // why it can prove nothing here
    std::uint64_t calls = 0, failed_calls = 0, refused = 0, ops = 0, signals = 0, signals_inside = 0;
    Kept kept;
};

// The limit of a run that is to meet none.
inline constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 46;

// One run, as a child.
struct Task {
    const Settings &settings;
    std::string scenario;
    Schedule schedule = Schedule::Seeded;
    std::uint64_t ops = 0;
    Injection injection;
    std::uint32_t threads = 0;
};
Outcome run_once(const Task &task);
// And fails it where more is in use at its end than at the end of a run without a fault, unless loss_unseen.
Outcome run_judged(const Task &task, const Kept &without_fault);
// Why no loss of blocks can be seen in runs of this task; empty: it can.
std::string loss_unseen(const Task &task);

// The command that makes this one run.
std::string task_command(const Task &task);

// The sums over all scenarios, a line for each, and the failures in full.
class Tally {
  public:
    Tally(const Settings &settings, int out) : settings_(settings), out_(out) {}

    // Of one scenario; `ops` and `calls` are of its run without a fault.
    struct Row {
        std::string scenario;
        std::uint64_t ops = 0, calls = 0, runs = 0, failed_calls = 0, refused = 0, signals = 0, signals_inside = 0;
        std::string note;
        std::string unseen; // see loss_unseen
        Kept kept; // without a fault: what libc keeps
        void add(const Outcome &outcome);
    };

    void skipped(const std::string &scenario, const std::string &why);
    // Prints a failure with what the run said; true: there was one.
    bool failed(const Task &task, const Outcome &outcome);
    // A scenario that never met what it was run for.
    void proves_nothing(const std::string &scenario, const std::string &why);
    void done(const Row &row);

    // The last line. 0; 1 after a failure; 77 when all was skipped.
    int finish();

  private:
    const Settings &settings_;
    int out_;
    std::uint64_t scenarios_ = 0, skipped_ = 0, unseen_ = 0, failures_ = 0;
    Row sum_;
};

// One scenario each.
void calls_of(const Settings &settings, const std::string &scenario, Tally &tally);
void space_of(const Settings &settings, const std::string &scenario, Tally &tally);
void signals_of(const Settings &settings, const std::string &scenario, Tally &tally);

// Parses and judges the command line: settings, or a text and an exit status.
struct Parsed {
    Settings settings;
    bool run = false;
    int exit_code = 0;
    std::string text;
};
Parsed parse(int argc, const char *const *argv, const std::string &default_allocator,
             const std::vector<std::string> &scenarios);

// Runs them all.
int run_all(const Settings &settings, int out);

} // namespace stress::inject
