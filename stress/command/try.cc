#include "command/try.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "command/setup.h"
#include "engine/base/clock.h"
#include "engine/run/execute.h"
#include "engine/watch/child_start.h"
#include "engine/watch/outside.h"
#include "engine/watch/watcher.h"

namespace stress {

// What the child reports to the parent.
struct Tries::Shared {
    bool finished;
    char rule[64];
    char detail[400];
};

namespace {

void silence()
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
    if (null > STDERR_FILENO) close(null);
}

} // namespace

Tries::Tries(TrySettings given) : settings(std::move(given)), memory_limit_bytes_(memory_cap_bytes())
{
    void *start = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) std::abort();
    shared_ = static_cast<Shared *>(start);
}

Tries::~Tries()
{
    munmap(shared_, sizeof(Shared));
}

void Tries::child(const Program &program)
{
    child_start();
    silence();
    Options options = options_of(program, settings.allocator, settings.strict);
    options.latency = false;
    options.watchdog_seconds = settings.hang_seconds;
    options.return_seconds = settings.return_seconds;
    std::string note;
    Plan plan = plan_of(program, note);
    execute({options, "shrink", settings.support, program.seed, "", nullptr,
             [this](Result &result) {
                 if (!result.failures.empty()) {
                     std::snprintf(shared_->rule, sizeof shared_->rule, "%s", result.failures[0].rule.c_str());
                     std::snprintf(shared_->detail, sizeof shared_->detail, "%s", result.failures[0].detail.c_str());
                 }
                 shared_->finished = true;
             },
             true, false},
            plan);
    _exit(0);
}

// Waits for the child and everything that it has started. Returns how it ended; empty: normally and without error.
std::string Tries::wait(pid_t pid) const
{
    // The child's own watchdog ends it sooner if no op is completed.
    WatchLimits limits = watch_limits(settings.deadline_seconds);
    limits.busy_seconds = settings.deadline_seconds;
    limits.memory_bytes = memory_limit_bytes_;
    Watcher watcher(pid, limits);
    const std::uint64_t start_ns = clock_ns();
    std::string killed;
    for (;;) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid) break;
        if (const Stuck stuck = watcher.look(); stuck != Stuck::No) {
            killed = stuck == Stuck::Memory ? "memory" : "hang";
            kill(pid, SIGKILL);
            waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
            break;
        }
        const timespec pause{0, clock_ns() - start_ns < 20'000'000 ? 100'000 : 1'000'000};
        nanosleep(&pause, nullptr);
    }
    kill(-pid, SIGKILL); // children of the child; its id is still taken, because it has not been reaped yet
    const std::string ending = ending_text(wait_for(pid));
    return killed.empty() ? ending : killed;
}

Verdict Tries::once(const Program &program)
{
    for (unsigned tries = 1;; ++tries) {
        const Verdict verdict = run_child(program);
        if (verdict.how != "SIGKILL" || tries == kOutsideTries) return verdict;
    }
}

Verdict Tries::run_child(const Program &program)
{
    ++count;
    std::memset(static_cast<void *>(shared_), 0, sizeof(Shared));
    const pid_t pid = fork();
    if (pid < 0) return {"", ""};
    if (pid == 0) child(program);
    setpgid(pid, pid);
    const std::string ending = wait(pid);
    if (ending == "hang" || ending == "memory") return {ending, ""};
    if (shared_->finished && ending.empty()) return {shared_->rule, shared_->detail};
    return {ending == "exit 1" ? "hang" : ending, ""}; // the watchdog's exit
}

} // namespace stress
