#include "engine/watch/self_stack.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

// In the child of a raw fork: becomes gdb, without the limits and blocked signals of the run.
[[noreturn]] void become_gdb(int out)
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
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execve(argv[0], argv.data(), environment.data());
    _exit(127);
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

}  // namespace

void self_stack_prepare()
{
    if (kSanitized || kEmulated) return;
    gdb_words = stack_words(getpid());
    argv.clear();
    for (std::string &word : gdb_words) argv.push_back(word == std::to_string(getpid()) ? process_text : word.data());
    argv.push_back(nullptr);
    environment = program_environment();
}

bool self_stack_write(int fd, pid_t first_thread)
{
    SafeText text;
    if (gdb_words.empty()) {
        if (!kSanitized && !kEmulated) text.add("  no stack: there is no gdb in PATH (package gdb)\n").write_to(fd);
        return false;
    }
    put_number(process_text, static_cast<unsigned>(getpid()));
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    // A file, not a pipe: gdb stops this process while it writes, so nobody would empty a pipe that is full.
    const int out = memfd_create("stacks", MFD_CLOEXEC);
    if (out < 0) return false;
    const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);  // no handlers of fork: they may wait for a lock
    if (child == 0) become_gdb(out);
    if (child > 0 && !await_end(static_cast<pid_t>(child))) {
        kill(static_cast<pid_t>(child), SIGKILL);
        while (waitpid(static_cast<pid_t>(child), nullptr, 0) < 0 && errno == EINTR) continue;
    }
    const std::size_t length = child > 0 ? read_all(out) : 0;
    close(out);
    const std::vector<std::string> lines = stack_read(std::string(gdb_output, length), first_thread);
    for (const std::string &line : lines) text.add("  ").add(line.c_str()).add("\n").write_to(fd);
    if (lines.empty())
        text.add("  no stack: gdb could not attach; the system may forbid ptrace, or the run may be denied memory\n")
            .write_to(fd);
    return !lines.empty();
}

}  // namespace stress
