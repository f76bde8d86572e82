#include "command/try.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "command/setup.h"
#include "engine/base/clock.h"
#include "engine/run/execute.h"

namespace stress {

// What the child reports to the parent.
struct Tries::Shared {
    bool finished;
    char rule[64];
    char detail[400];
};

namespace {

// Resident bytes of another process. Does not use stdio, whose buffers would come from the malloc under test.
std::uint64_t resident_bytes(pid_t pid)
{
    char text[128];
    std::snprintf(text, sizeof text, "/proc/%d/statm", pid);
    const int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t length = ::read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = '\0';
    char *second = nullptr;
    std::strtoull(text, &second, 10);
    return std::strtoull(second, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// A limit on address space would stop mallocs that reserve more than they use. So the parent watches the child's memory
// instead.
std::uint64_t half_of_free_memory()
{
    struct sysinfo info{};
    constexpr std::uint64_t least = std::uint64_t{1} << 30;
    if (sysinfo(&info) != 0) return least;
    return std::max<std::uint64_t>(least, (std::uint64_t{info.freeram} + info.bufferram) * info.mem_unit / 2);
}

void silence()
{
    const int null = open("/dev/null", O_RDWR);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
    if (null > STDERR_FILENO) close(null);
}

// The child ends with its parent, dumps no core, and is the first to be killed when memory runs out.
void make_expendable()
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = write(fd, "1000", 4);
    close(fd);
}

} // namespace

Tries::Tries(TrySettings given) : settings(std::move(given)), memory_limit_bytes_(half_of_free_memory())
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
    make_expendable();
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
             }},
            plan);
    _exit(0);
}

// Waits for the child and everything that it has started. Returns how it ended; empty: normally and without error.
std::string Tries::wait(pid_t pid) const
{
    const std::uint64_t start_ns = clock_ns();
    const std::uint64_t deadline_ns = start_ns + static_cast<std::uint64_t>(settings.deadline_seconds * 1e9);
    std::uint64_t look_ns = start_ns;
    std::string killed;
    for (;;) {
        siginfo_t info{};
        if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid) break;
        const std::uint64_t now_ns = clock_ns();
        if (now_ns > deadline_ns) killed = "hang";
        if (now_ns - look_ns > 20'000'000) {
            look_ns = now_ns;
            if (resident_bytes(pid) > memory_limit_bytes_) killed = "memory";
        }
        if (!killed.empty()) {
            kill(pid, SIGKILL);
            waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
            break;
        }
        const timespec pause{0, now_ns - start_ns < 20'000'000 ? 100'000 : 1'000'000};
        nanosleep(&pause, nullptr);
    }
    kill(-pid, SIGKILL); // children of the child; its id is still taken, because it has not been reaped yet
    const std::string ending = ending_text(wait_for(pid));
    return killed.empty() ? ending : killed;
}

Verdict Tries::once(const Program &program)
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
