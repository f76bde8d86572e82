#include "conform/child.h"
#include "engine/base/clock.h"
#include "engine/base/libc.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace stress::conform {
namespace {

// The child's result, in memory shared with the runner.
struct Outcome {
    bool judged;   // the verdict is complete
    bool program;  // the child became another program, whose exit status is the verdict
    Verdict verdict;
};

Outcome *outcome = nullptr;

[[noreturn]] void child_run(const Check &check, const Subject &subject, int output, pid_t runner)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != runner) _exit(1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    outcome->verdict = check.run(subject);
    outcome->judged = true;
    _exit(0);
}

double cpu_seconds(pid_t child)
{
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Whether the child ended before the deadline; `status` is then its wait status. A child that works on a busy machine
// gets little processor time, and does not hang. So it may continue, for at most eight times the deadline, as long as
// it has used less processor time than the deadline and at least 5% of the last second; a child that only waits uses
// less.
bool wait_until(pid_t child, double deadline_seconds, int &status)
{
    const double start = now_seconds();
    double deadline = start + deadline_seconds, second = start, used_before = 0, used_lately = 0;
    for (long pause_ns = 50'000;; pause_ns = pause_ns < 5'000'000 ? pause_ns * 2 : pause_ns) {
        if (waitpid(child, &status, WNOHANG) == child) return true;
        const double now = now_seconds();
        if (now > second + 1) {
            const double used = cpu_seconds(child);
            used_lately = (used - used_before) / (now - second);
            used_before = used;
            second = now;
        }
        if (now > deadline) {
            const bool works = used_lately > 0.05 && used_before < deadline_seconds;
            if (!works || now > start + 8 * deadline_seconds) return false;
            deadline = now + 1;
        }
        const timespec pause{0, pause_ns};
        nanosleep(&pause, nullptr);
    }
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

Verdict judge_program(int status, const char *line)
{
    if (WEXITSTATUS(status) == 0 && std::strcmp(line, "ok") == 0) return pass();
    if (WEXITSTATUS(status) == 77) return skip("%s", line);
    if (WEXITSTATUS(status) == 1) return fail("%s", line);
    return fail("a fresh program ended with status %d; its last line: '%s'", WEXITSTATUS(status), line);
}

Verdict judge(bool ended, int status, int output, double deadline_seconds)
{
    char line[200];
    last_line(output, line);
    const char *comma = line[0] != '\0' ? ": " : "";
    if (!ended) return fail("did not end in %g s%s%s", deadline_seconds, comma, line);
    if (WIFSIGNALED(status)) return fail("ended by SIG%s%s%s", signal_name(WTERMSIG(status)), comma, line);
    if (outcome->judged) return outcome->verdict;
    if (outcome->program) return judge_program(status, line);
    return fail("ended with status %d before the check was done%s%s", WEXITSTATUS(status), comma, line);
}

} // namespace

Finding run_in_child(const Check &check, const Subject &subject, double deadline_seconds)
{
    const double start = now_seconds();
    if (outcome == nullptr) {
        void *shared = mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) return {&check, fail("the runner has no memory"), 0};
        outcome = static_cast<Outcome *>(shared);
    }
    *outcome = Outcome{};
    const int output = memfd_create("conform", MFD_CLOEXEC);
    const pid_t runner = getpid();
    const pid_t child = fork();
    if (child < 0 || output < 0) return {&check, fail("the runner could not start a child"), 0};
    if (child == 0) child_run(check, subject, output, runner);
    setpgid(child, child); // called by both child and parent, since either may run first
    int status = 0;
    const bool ended = wait_until(child, deadline_seconds, status);
    kill(-child, SIGKILL);
    if (!ended) waitpid(child, &status, 0);
    const Verdict verdict = judge(ended, status, output, deadline_seconds);
    close(output);
    return {&check, verdict, now_seconds() - start};
}

void child_becomes_program()
{
    outcome->program = true;
}

} // namespace stress::conform
