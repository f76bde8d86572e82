#include "command/setup.h"
#include "engine/base/libc.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace stress {

bool strict_default(const std::string &allocator)
{
    return allocator == "hakmem" || allocator == "validate";
}

std::string allocator_named(const std::string &allocator)
{
    if (allocator == "system" || strict_default(allocator)) return allocator;
    char path[PATH_MAX];
    return realpath(allocator.c_str(), path) != nullptr ? path : allocator;
}

Options options_of(const Program &program, const std::string &allocator, std::optional<bool> strict)
{
    Options options;
    options.threads = program.threads;
    options.ops = program.ops_limit;
    options.seed = program.seed;
    options.allocator = allocator;
    options.check = program.check;
    options.strict = strict.value_or(program.strict.value_or(strict_default(allocator)));
    options.schedule = program.schedule;
    options.laps = program.laps;
    options.latency = program.check;
    return options;
}

std::string ending_text(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        const char *name = signal_name(WTERMSIG(wait_status));
        return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(wait_status));
    }
    const int code = WEXITSTATUS(wait_status);
    return code == 0 ? "" : "exit " + std::to_string(code);
}

pid_t spawn_self(const char *program_name, const std::vector<std::string> &arguments, bool quiet)
{
    std::vector<char *> argv{const_cast<char *>(program_name)};
    for (const std::string &argument : arguments) argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (quiet)
        for (int fd : {STDOUT_FILENO, STDERR_FILENO})
            posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
    pid_t child = -1;
    if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) child = -1;
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

}  // namespace stress
