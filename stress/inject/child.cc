// Makes one run with a fault, as a child of the driver.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/base/libc.h"
#include "engine/base/shell_word.h"
#include "engine/run/execute.h"
#include "engine/run/monitor.h"
#include "engine/run/options_parse.h"
#include "engine/run/scenario.h"
#include "engine/watch/child_start.h"
#include "engine/watch/outside.h"
#include "engine/watch/stack.h"
#include "engine/watch/watcher.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

// The child's report, in memory that the parent shares.
struct Said {
    bool finished;
    char failure[512], skip[200];
    std::uint64_t calls, failed_calls, refused, ops, signals, signals_inside;
    Kept kept;
};

Said &said()
{
    static Said *const page = [] {
        void *start = mmap(nullptr, sizeof(Said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED) std::abort();
        return new (start) Said();
    }();
    return *page;
}

// The file that takes the child's output, which is needed only if it fails.
int words_file()
{
    static const int fd = memfd_create("inject", MFD_CLOEXEC);
    return fd;
}

// The end of the child's output.
std::string last_words()
{
    char text[12000];
    const off_t size = lseek(words_file(), 0, SEEK_END);
    const off_t from = size > static_cast<off_t>(sizeof text) ? size - static_cast<off_t>(sizeof text) : 0;
    const ssize_t length = size <= 0 ? 0 : pread(words_file(), text, sizeof text, from);
    return std::string(text, length > 0 ? static_cast<std::size_t>(length) : 0);
}

std::string last_line(std::string text)
{
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

Options options_of(const Task &task)
{
    std::vector<std::string> words{"hakmem-stress", task.scenario,
                                   "--allocator",   task.settings.allocator,
                                   "--seed",        std::to_string(task.settings.seed),
                                   "--threads",     std::to_string(task.threads),
                                   "--laps",        "2",
                                   "--watchdog",    fmt::format("{}", task.settings.watchdog_seconds)};
    if (task.schedule == Schedule::Seeded) words.insert(words.end(), {"--schedule", "seeded"});
    if (task.ops != 0) words.insert(words.end(), {"--ops", std::to_string(task.ops)});
    else words.insert(words.end(), {"--seconds", fmt::format("{}", task.settings.seconds)});
    std::vector<const char *> argv;
    for (const std::string &word : words) argv.push_back(word.c_str());
    const ParseOutcome parsed = options_parse(static_cast<int>(argv.size()), argv.data());
    if (!parsed.run) {
        std::snprintf(said().failure, sizeof said().failure, "%s", parsed.text.c_str());
        _exit(1);
    }
    return parsed.options;
}

void tell(const Result &result)
{
    Said &to = said();
    to.calls = result.process.os_calls;
    to.failed_calls = result.process.os_failures;
    to.signals = result.process.signals;
    to.signals_inside = result.process.signals_inside;
    to.refused = result.refused;
    to.kept = {static_cast<std::int64_t>(result.process.blocks_kept),
               static_cast<std::int64_t>(result.process.bytes_kept)};
    to.ops = result.ops;
    if (!result.passed())
        std::snprintf(to.failure, sizeof to.failure, "%s: %s", result.failures[0].rule.c_str(),
                      result.failures[0].detail.c_str());
    to.finished = true;
}

[[noreturn]] void child(const Task &task)
{
    child_start();
    for (int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(words_file(), fd);
    const Options options = options_of(task);
    Plan plan = scenario_find(task.scenario)->plan({options, task.settings.seed, options.threads});
    plan.injection = task.injection;
    if (!plan.skip.empty()) std::snprintf(said().skip, sizeof said().skip, "%s", plan.skip.c_str());
    Execution execution{options,
                        task.scenario,
                        task.settings.support,
                        task.settings.seed,
                        task_command(task),
                        nullptr,
                        [](Result &result) { tell(result); },
                        false};
    _exit(execute(execution, plan));
}

std::string ending(int status)
{
    if (WIFSIGNALED(status))
        return fmt::format("crash: the run ended by SIG{}: {}", signal_name(WTERMSIG(status)), last_words());
    if (said().failure[0] != '\0') return said().failure;
    if (WEXITSTATUS(status) == kSkipped && said().skip[0] == '\0') {
        std::snprintf(said().skip, sizeof said().skip, "%s", last_line(last_words()).c_str());
        return "";
    }
    if (WEXITSTATUS(status) != 0 && said().skip[0] == '\0') {
        const std::string words = last_words();
        if (const std::size_t at = words.find(kWatchdogWords); at != std::string::npos)
            return "hang: " + words.substr(at + std::strlen(kWatchdogWords));
        return fmt::format("crash: the run ended with status {}: {}", WEXITSTATUS(status), words);
    }
    return said().finished || said().skip[0] != '\0' ? "" : "crash: the run ended before its verdict";
}

// For a child whose own watchdog fails to end it, or that takes too much memory. The watchdog counts ops; here no op is
// seen, and a run of many threads may use processor time as long as it is asked to.
WatchLimits limits_of(const Settings &settings)
{
    WatchLimits limits = watch_limits(3 * settings.watchdog_seconds);
    limits.busy_seconds = limits.wall_seconds += settings.seconds;
    static const std::uint64_t cap_bytes = memory_cap_bytes();
    limits.memory_bytes = cap_bytes;
    return limits;
}

// Waits until the child has ended or is stuck, and does not reap it. Returns what it was stuck at.
std::string wait_for_end(pid_t pid, const Settings &settings, std::string &slow)
{
    Watcher watcher(pid, limits_of(settings));
    for (long pause_ns = 50'000;; pause_ns = pause_ns < 5'000'000 ? pause_ns * 2 : pause_ns) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid)
            return "";
        if (const Stuck stuck = watcher.look(); stuck != Stuck::No) {
            std::string stacks;
            for (const std::string &line : stack_lines(pid, 0)) stacks += "\n  " + line;
            if (stuck == Stuck::Slow) slow = watcher.text(stuck);
            return (stuck == Stuck::Memory ? "memory cap: the run " : "hang: the run ") + watcher.text(stuck) + stacks;
        }
        const timespec pause{0, pause_ns};
        nanosleep(&pause, nullptr);
    }
}

Outcome failed_to_run(const std::string &why)
{
    Outcome outcome;
    outcome.failure = why;
    return outcome;
}

// `outside`: nobody here ended the run, so the outcome says nothing.
Outcome run_try(const Task &task, bool &outside)
{
    std::memset(static_cast<void *>(&said()), 0, sizeof(Said));
    if (ftruncate(words_file(), 0) != 0 || lseek(words_file(), 0, SEEK_SET) != 0)
        return failed_to_run("no file in memory");
    const pid_t pid = fork();
    if (pid < 0) return failed_to_run(fmt::format("fork failed with errno {}", errno));
    if (pid == 0) child(task);
    setpgid(pid, pid);
    std::string slow;
    const std::string stuck = wait_for_end(pid, task.settings, slow);
    kill(-pid, SIGKILL); // children of the child; its id is still taken, because it has not been reaped yet
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    outside = stuck.empty() && killed_from_outside(status);
    const Said &from = said();
    Outcome outcome{stuck.empty() ? ending(status) : stuck,
                    from.skip,
                    from.calls,
                    from.failed_calls,
                    from.refused,
                    from.ops,
                    from.signals,
                    from.signals_inside,
                    from.kept};
    if (!slow.empty()) {
        outcome.failure.clear();
        outcome.skip = "slow: the run " + slow;
    }
    return outcome;
}

} // namespace

Outcome run_once(const Task &task)
{
    const OutsideWatch watch;
    for (unsigned tries = 0; tries < kOutsideTries; ++tries) {
        bool outside = false;
        const Outcome outcome = run_try(task, outside);
        if (!outside) return outcome;
    }
    Outcome none;
    none.skip = watch.text();
    return none;
}

std::string task_command(const Task &task)
{
    const Settings &settings = task.settings;
    std::string text = fmt::format("hakmem-stress inject {} {} --allocator {} --seed {} --threads {}", settings.kind,
                                   task.scenario, shell_word(settings.allocator), settings.seed, task.threads);
    if (task.ops != 0) text += fmt::format(" --ops {}", task.ops);
    const bool of_signals = settings.kind == "signals";
    if (of_signals && task.ops == 0) text += fmt::format(" --seconds {}", settings.seconds);
    if (of_signals) text += fmt::format(" --period {}", settings.signal_us);
    if (!of_signals && task.schedule == Schedule::Os) text += " --schedule os";
    if (settings.watchdog_seconds != Settings().watchdog_seconds)
        text += fmt::format(" --watchdog {}", settings.watchdog_seconds);
    const Injection &injection = task.injection;
    if (injection.call != 0)
        text += fmt::format(" --call {}{}", injection.call, injection.for_ever ? " --for-ever" : "");
    if (injection.limit_bytes != 0 && injection.limit_bytes != kNoLimitBytes)
        text += fmt::format(" --limit {}", injection.limit_bytes);
    return text;
}

} // namespace stress::inject
