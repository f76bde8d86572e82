#include "engine/watch/self_stack.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/build.h"
#include "engine/base/program.h"
#include "engine/base/safe_text.h"
#include "engine/watch/stack.h"

namespace stress {
namespace {

constexpr int kWaitMs = 90'000;
bool prepared = false;
std::atomic<bool> writing{false};
std::vector<std::string> gdb_words;
std::vector<char *> argv, environment;
char process_text[16];
char gdb_output[256 << 10];  // not mapped, since mappings may be limited by then

void put_number(char *text, unsigned value)
{
    char digits[16];
    std::size_t count = 0;
    do digits[count++] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    while (count > 0) *text++ = digits[--count];
    *text = '\0';
}

// In a child of a raw fork: becomes gdb, without the limits and blocked signals of the run.
[[noreturn]] void become_gdb(pid_t process, int out)
{
    for (auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};
        if (getrlimit(resource, &limit) != 0) continue;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resource, &limit);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    put_number(process_text, static_cast<unsigned>(process));
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execve(argv[0], argv.data(), environment.data());
    _exit(127);
}

// Not fork, whose handlers may wait for a lock.
pid_t raw_fork()
{
    return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

// False: it did not end in time.
bool await_end(pid_t child)
{
    const timespec pause{0, 10'000'000};
    for (int waited_ms = 0; waited_ms < kWaitMs; waited_ms += 10) {
        const pid_t ended = waitpid(child, nullptr, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) return true;
        nanosleep(&pause, nullptr);
    }
    return false;
}

// Runs gdb on the process. Its output is a file, not a pipe: the process is stopped meanwhile, so it would not empty a
// pipe that is full.
void run_gdb(pid_t process, int out)
{
    const pid_t child = raw_fork();
    if (child == 0) become_gdb(process, out);
    if (child < 0 || await_end(child)) return;
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
}

// The process that runs gdb for one that traps its calls, and the file that takes gdb's output. Each request is the id
// of a process; each answer is the same.
struct Helper {
    pid_t process = 0;
    int socket = -1, out = -1;
};
Helper helper;

[[noreturn]] void help(int socket, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = open("/dev/null", O_RDWR);
    for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd); // nobody waits for their end
    pid_t process = 0;
    while (recv(socket, &process, sizeof process, 0) == sizeof process) {
        if (ftruncate(out, 0) == 0 && lseek(out, 0, SEEK_SET) == 0) run_gdb(process, out);
        if (send(socket, &process, sizeof process, MSG_NOSIGNAL) < 0) break;
    }
    _exit(0);
}

void start_helper()
{
    int ends[2];
    const int out = memfd_create("stacks", MFD_CLOEXEC);
    if (out < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t process = static_cast<pid_t>(syscall(SYS_clone, 0, 0, 0, 0, 0)); // its end sends no signal
    if (process == 0) {
        close(ends[0]);
        help(ends[1], out);
    }
    close(ends[1]);
    helper = {process, ends[0], out};
}

bool ask_helper(pid_t process)
{
    if (send(helper.socket, &process, sizeof process, MSG_NOSIGNAL) != sizeof process) return false;
    pollfd answer{helper.socket, POLLIN, 0};
    while (poll(&answer, 1, kWaitMs) < 0)
        if (errno != EINTR) return false;
    return recv(helper.socket, &process, sizeof process, MSG_DONTWAIT) == sizeof process;
}

std::size_t read_all(int fd)
{
    std::size_t used = 0;
    while (used < sizeof gdb_output) {
        const ssize_t got = pread(fd, gdb_output + used, sizeof gdb_output - used, static_cast<off_t>(used));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += static_cast<std::size_t>(got);
    }
    return used;
}

// gdb's output about the process, in gdb_output. Returns its length.
std::size_t ask_gdb(pid_t process)
{
    if (helper.process > 0) return ask_helper(process) ? read_all(helper.out) : 0;
    const int out = memfd_create("stacks", MFD_CLOEXEC);
    if (out < 0) return 0;
    run_gdb(process, out);
    const std::size_t length = read_all(out);
    close(out);
    return length;
}

}  // namespace

void self_stack_prepare(bool filtered)
{
    if (kSanitized || kEmulated) return;
    prepared = true;
    gdb_words = stack_words(getpid());
    argv.clear();
    for (std::string &word : gdb_words) argv.push_back(word == std::to_string(getpid()) ? process_text : word.data());
    argv.push_back(nullptr);
    environment = program_environment();
    if (filtered && !gdb_words.empty()) start_helper();
}

bool self_stack_write(int fd, const char *heading, pid_t process, pid_t first_thread)
{
    SafeText text;
    if (!prepared) return false;
    text.add(heading).write_to(fd);
    if (gdb_words.empty()) {
        text.add("  no stack: there is no gdb in PATH (package gdb)\n").write_to(fd);
        return false;
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    writing.store(true, std::memory_order_relaxed); // relaxed: it orders nothing
    const std::vector<std::string> lines = stack_read(std::string(gdb_output, ask_gdb(process)), first_thread);
    writing.store(false, std::memory_order_relaxed);
    for (const std::string &line : lines) text.add("  ").add(line.c_str()).add("\n").write_to(fd);
    if (lines.empty())
        text.add("  no stack: gdb could not attach; the system may forbid ptrace, or the run may be denied memory\n")
            .write_to(fd);
    return !lines.empty();
}

bool self_stack_writing()
{
    return writing.load(std::memory_order_relaxed);
}

void self_stack_end()
{
    if (helper.process <= 0) return;
    close(helper.socket);
    close(helper.out);
    kill(helper.process, SIGKILL);
    while (waitpid(helper.process, nullptr, __WALL) < 0 && errno == EINTR) continue;
    helper = {};
}

}  // namespace stress
