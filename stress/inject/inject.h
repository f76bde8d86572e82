// Injects faults, one after another, into runs of each scenario:
//
// - calls: counts the run's system calls for memory, then fails call 1, 2, ..., once and for ever, each in its own run,
//   until a run has no call left to fail.
// - space: limits the process to map only a little more than it has, with twice as much in each run, until nothing is
//   refused.
// - signals: interrupts each thread at a fixed rate, in the harnesses.
//
// Every run is judged like any other. If memory was refused, requests must also succeed again afterwards, and no more
// may be in use at the end than without a fault; if that cannot be seen, the scenario's line says why. Each run is a
// child of this process, forked before the first op, so all begin with the same heap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/expect.h"
#include "engine/run/injection.h"
#include "engine/run/options.h"
#include "engine/subject/support.h"

namespace stress::inject {

inline constexpr int kSkipped = 77; // exit status of a run, and of all runs together

struct Settings {
    std::string kind; // "calls", "space", "signals"
    std::vector<std::string> scenarios; // names that exist
    std::string allocator;
    std::string junit_path; // empty: none
    std::string expect_path; // of known failures; empty: none
    Expectations expected;
    Support support;
    std::uint64_t seed = 0;
    std::uint32_t threads = 3;
    std::uint64_t ops = 0; // 0: as suits
    std::uint64_t calls_max = 0; // if a run makes more calls, its ops are halved, as long as half of them make enough
    double seconds = 1; // of each run with signals
    std::uint64_t signal_us = 100;
    double watchdog_seconds = 20;
    std::optional<Schedule> schedule; // none: seeded, or the system's scheduler if a seeded run can prove nothing
    std::uint64_t call = 0; // if not 0: only this call
    bool for_ever = false; // with `call`: all later calls as well
    std::uint64_t limit_bytes = 0; // if not 0: only this limit
};

// What is in use at the end of a run beyond what was at its start, if the subject's books show it.
struct Kept {
    std::int64_t blocks = 0, bytes = 0;
};

// A child's report on its run; see run_once.
struct Outcome {
    std::string failure; // "RULE: DETAIL", or how the process ended; empty: the run passed
    std::string skip; // why it can prove nothing here
    std::uint64_t calls = 0, failed_calls = 0, refused = 0, ops = 0, signals = 0, signals_inside = 0;
    Kept kept;
};

// A limit that no run reaches.
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
// Also fails the run if more is in use at its end than at the end of a run without a fault, unless loss_unseen.
Outcome run_judged(const Task &task, const Kept &without_fault);
// Why the runs of this task cannot show lost blocks; empty: they can.
std::string loss_unseen(const Task &task);

// The command that repeats this one run.
std::string task_command(const Task &task);

// The totals over all scenarios: prints a line for each scenario, and each failure in full.
class Totals {
  public:
    Totals(const Settings &settings, int out) : settings_(settings), out_(out), expected_(settings.expected) {}

    // The runs of this scenario come next.
    void begin(const std::string &scenario);

    // For one scenario; `ops` and `calls` are those of its run without a fault.
    struct Row {
        std::string scenario;
        std::uint64_t ops = 0, calls = 0, runs = 0, failed_calls = 0, refused = 0, signals = 0, signals_inside = 0;
        std::string note;
        // Runs without a verdict: a busy machine did not let them end, or they were killed from outside.
        std::uint64_t slow = 0;
        std::string unseen; // see loss_unseen
        Kept kept; // kept by libc in a run without a fault
        void add(const Outcome &outcome);
        std::string without_verdict() const;
    };

    void skipped(const std::string &scenario, const std::string &why);
    // Prints a failure with the run's output. True: there was one.
    bool failed(const Task &task, const Outcome &outcome);
    // Reports a scenario that never met what it was run for.
    void proves_nothing(const std::string &scenario, const std::string &why);
    void done(const Row &row);

    // Judges the failures by what is known, writes the JUnit file, and prints the last line. Returns 0; 1 after a failure
    // that is not known; 77 if everything was skipped.
    int finish();

  private:
    // What one scenario came to.
    struct Judged {
        std::string scenario, skip;
        std::vector<std::string> rules, texts; // of the failures
        double start_seconds = 0, seconds = 0;
    };
    void fail(const std::string &scenario, const std::string &rule, const std::string &text);
    std::string judge_known();
    std::string junit(const std::vector<std::string> &mended);

    const Settings &settings_;
    int out_;
    std::uint64_t scenarios_ = 0, skipped_ = 0, unseen_ = 0, failures_ = 0, known_ = 0;
    std::vector<Judged> judged_;
    Expectations expected_;
    Row sum_;
};

// Whether no call is left to be made to fail, once call `call` was to fail in a run. The run without a fault made
// `counted`. Runs under the system's scheduler differ, and one that was too slow tells of no call; neither is the last.
bool calls_are_over(const Outcome &outcome, std::uint64_t call, std::uint64_t counted);

// One scenario each.
void calls_of(const Settings &settings, const std::string &scenario, Totals &totals);
void space_of(const Settings &settings, const std::string &scenario, Totals &totals);
void signals_of(const Settings &settings, const std::string &scenario, Totals &totals);

// The parsed and checked command line: settings, or a text and an exit status.
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
