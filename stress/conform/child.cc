#include "conform/child.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "conform/calls.h"
#include "engine/base/clock.h"
#include "engine/base/libc.h"
#include "engine/base/progress.h"
#include "engine/watch/child_start.h"
#include "engine/watch/notice.h"
#include "engine/watch/outside.h"
#include "engine/watch/stack.h"

namespace stress::conform {
namespace {

// The child's result, in memory shared with the runner. The notice comes first, where plugin/fresh.c looks for it.
struct Outcome {
    crash_notice notice;
    bool judged;   // the verdict is complete
    bool program;  // the child became another program, whose exit status is the verdict
    Verdict verdict;
    char doing[200];
    char wrong_of_fork[240];
};

int outcome_file = -1;
Outcome *outcome = nullptr;
CallTable *calls = nullptr;

constexpr std::size_t kTableOffset = 4096;
static_assert(sizeof(Outcome) <= kTableOffset);

bool shared_make()
{
    const std::size_t bytes = kTableOffset + call_table_bytes();
    outcome_file = memfd_create("conform-outcome", MFD_CLOEXEC);
    if (outcome_file < 0 || ftruncate(outcome_file, static_cast<off_t>(bytes)) != 0) return false;
    void *shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, outcome_file, 0);
    if (shared == MAP_FAILED) return false;
    outcome = static_cast<Outcome *>(shared);
    calls = reinterpret_cast<CallTable *>(static_cast<char *>(shared) + kTableOffset);
    return true;
}

// Back to zeros.
void shared_clear()
{
    std::memset(static_cast<void *>(outcome), 0, kTableOffset + call_table_bytes());
    *outcome = Outcome{};
}

[[noreturn]] void child_run(const Check &check, const Subject &subject, int output, pid_t runner)
{
    static char signal_stack[64 << 10];
    child_start();
    if (getppid() != runner) _exit(1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    crash_notice_install(&outcome->notice, signal_stack, sizeof signal_stack);
    calls_record(calls);
    outcome->verdict = check.run(subject);
    outcome->judged = true;
    _exit(0);
}

// The last line of text that the child printed, without control characters.
void last_line(int output, char (&line)[200])
{
    char text[4096];
    const off_t size = lseek(output, 0, SEEK_END);
    const off_t from = size > static_cast<off_t>(sizeof text) ? size - static_cast<off_t>(sizeof text) : 0;
    const ssize_t length = pread(output, text, sizeof text, from);
    ssize_t end = length;
    while (end > 0 && text[end - 1] <= ' ') --end;
    ssize_t start = end;
    while (start > 0 && text[start - 1] != '\n') --start;
    std::size_t used = 0;
    for (ssize_t i = start; i < end && used + 1 < sizeof line; ++i)
        line[used++] = text[i] < ' ' || text[i] == '\x7f' ? ' ' : text[i];
    line[used] = '\0';
}

// How a child ended, and what was seen before.
struct Ending {
    Stuck stuck = Stuck::No;
    std::string stuck_text;
    int status = 0;
    bool crashed = false;
    std::string crash_text;  // " at address 0x10, in free(0x7f...)"
    std::vector<std::string> evidence;
};

std::string doing_text()
{
    return outcome->doing[0] != '\0' ? std::string("; ") + outcome->doing : "";
}

// A process of the check has stopped at its crash: reads its stacks, and lets it die.
void see_crash(Ending &ending)
{
    const crash_notice &notice = outcome->notice;
    ending.crashed = true;
    if (notice.signal == SIGSEGV && notice.code == SI_KERNEL)
        ending.crash_text = " at an address that no program can have";
    else if (notice.signal != SIGABRT) ending.crash_text = fmt::format(" at address {:#x}", notice.address);
    if (const std::string call = call_of_thread(*calls, notice.thread); !call.empty()) ending.crash_text += ", " + call;
    ending.evidence = stack_lines(notice.process, notice.thread);
    crash_notice_release(&outcome->notice);
}

void see_stuck(const Watcher &watcher, Ending &ending)
{
    constexpr std::size_t processes_max = 3;
    ending.stuck_text = watcher.text(ending.stuck);
    ending.evidence = calls_in_hand(*calls, watcher.processes());
    for (std::size_t i = 0; i < watcher.processes().count && i < processes_max; ++i) {
        const pid_t process = watcher.processes().ids[i];
        ending.evidence.push_back(fmt::format("process {}{}", process, i == 0 ? ":" : ", a child of the check:"));
        for (std::string &line : stack_lines(process, 0)) ending.evidence.push_back("  " + line);
    }
}

// For a person who waits, once a check: a call that may never end.
void say_that_it_is_long(const Check &check, const Watcher &watcher, const WatchLimits &limits)
{
    const std::vector<std::string> in_hand = calls_in_hand(*calls, watcher.processes());
    write_text(STDERR_FILENO,
               fmt::format("hakmem-stress: {}{}{}: {:.1f} s of processor time in one call; it has failed if "
                           "it takes {:.4g} s (six times --deadline)\n",
                           check.id, in_hand.empty() ? "" : ": ", in_hand.empty() ? "" : in_hand.front(),
                           watcher.seconds_in_call(), limits.busy_seconds));
}

// Waits until the child has ended or is stuck. It is not yet reaped, so that its process group is still its own.
Ending wait_until_end(pid_t child, const Check &check, const WatchLimits &limits)
{
    bool said = false;
    Ending ending;
    Watcher watcher(child, limits, [] { return calls_finished(*calls); });
    for (long pause_ns = 50'000;; pause_ns = pause_ns < 5'000'000 ? pause_ns * 2 : pause_ns) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
            return ending;
        if (!ending.crashed && crash_notice_waits(&outcome->notice)) see_crash(ending);
        if (ending.stuck = watcher.look(); ending.stuck != Stuck::No) {
            if (!ending.crashed) see_stuck(watcher, ending);
            else ending.stuck_text = watcher.text(ending.stuck);
            return ending;
        }
        if (!said && watcher.seconds_in_call() > limits.idle_seconds) {
            said = true;
            say_that_it_is_long(check, watcher, limits);
        }
        const timespec pause{0, pause_ns};
        nanosleep(&pause, nullptr);
    }
}

Verdict judge_program(int status, const char *line)
{
    if (WEXITSTATUS(status) == 0 && std::strcmp(line, "ok") == 0) return pass();
    if (WEXITSTATUS(status) == 77) return skip("%s", line);
    if (WEXITSTATUS(status) == 1) return fail("%s", line);
    return fail("a fresh program ended with status %d; its last line: '%s'", WEXITSTATUS(status), line);
}

Verdict judge_stuck(const Ending &ending, const std::string &after)
{
    Verdict verdict = fail("%s%s%s", ending.stuck_text.c_str(), doing_text().c_str(), after.c_str());
    if (ending.stuck == Stuck::Slow) verdict.status = Status::Slow;
    if (ending.stuck == Stuck::Memory) verdict.status = Status::Memory;
    return verdict;
}

Verdict judge(const Ending &ending, int output)
{
    char line[200];
    last_line(output, line);
    const std::string after = line[0] != '\0' ? std::string(": ") + line : "";
    const int status = ending.status;
    if (ending.stuck != Stuck::No) return judge_stuck(ending, after);
    if (killed_from_outside(status)) return {Status::Outside, ""};
    if (WIFSIGNALED(status))
        return fail("ended by SIG%s%s%s%s", signal_name(WTERMSIG(status)), ending.crash_text.c_str(),
                    doing_text().c_str(), after.c_str());
    if (!outcome->judged && !outcome->program)
        return fail("ended with status %d before the check was done%s%s", WEXITSTATUS(status), doing_text().c_str(),
                    after.c_str());
    Verdict verdict = outcome->judged ? outcome->verdict : judge_program(status, line);
    if (verdict.status == Status::Fail && ending.crashed)
        verdict = fail("%s (SIG%s%s)", verdict.detail, signal_name(outcome->notice.signal), ending.crash_text.c_str());
    return verdict;
}

Finding run_once(const Check &check, const Subject &subject, const WatchLimits &limits)
{
    const double start = now_seconds();
    if (outcome == nullptr && !shared_make()) return {&check, fail("the runner has no memory"), 0, {}};
    shared_clear();
    const int output = memfd_create("conform", MFD_CLOEXEC);
    const pid_t runner = getpid();
    const pid_t child = fork();
    if (child < 0 || output < 0) return {&check, fail("the runner could not start a child"), 0, {}};
    if (child == 0) child_run(check, subject, output, runner);
    setpgid(child, child); // called by both child and parent, since either may run first
    Ending ending = wait_until_end(child, check, limits);
    kill(-child, SIGKILL);
    waitpid(child, &ending.status, 0);
    const Verdict verdict = judge(ending, output);
    close(output);
    if (verdict.status == Status::Pass || verdict.status == Status::Skip) ending.evidence.clear();
    return {&check, verdict, now_seconds() - start, ending.evidence};
}

}  // namespace

Finding run_in_child(const Check &check, const Subject &subject, const WatchLimits &limits)
{
    const OutsideWatch outside;
    Finding finding;
    for (unsigned tries = 0; tries < kOutsideTries; ++tries) {
        finding = run_once(check, subject, limits);
        if (finding.verdict.status != Status::Outside) return finding;
    }
    std::snprintf(finding.verdict.detail, sizeof finding.verdict.detail, "%s", outside.text().c_str());
    return finding;
}

void child_becomes_program()
{
    outcome->program = true;
    dup2(outcome_file, NOTICE_DESCRIPTOR); // without the flag that closes it
}

std::span<char> wrong_of_fork()
{
    return outcome->wrong_of_fork;
}

void now_doing(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(outcome->doing, sizeof outcome->doing, format, arguments);
    va_end(arguments);
}

} // namespace stress::conform
