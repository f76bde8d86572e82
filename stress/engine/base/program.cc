#include "engine/base/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace stress {
namespace {

std::string read_until_end(int fd, pid_t child, int seconds_max)
{
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_max);
    std::string out;
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd poll_fd{fd, POLLIN, 0};
        const int ready = left.count() > 0 ? poll(&poll_fd, 1, static_cast<int>(left.count())) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            kill(child, SIGKILL);
            return "";
        }
        char part[65536];
        const ssize_t count = read(fd, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return out;
        out.append(part, static_cast<std::size_t>(count));
    }
}

}  // namespace

std::string program_find(const std::vector<std::string> &names)
{
    const char *path = std::getenv("PATH");
    for (const std::string &name : names) {
        std::string rest = path != nullptr ? path : "/usr/bin:/bin";
        while (!rest.empty()) {
            const std::size_t length = std::min(rest.find(':'), rest.size());
            const std::string file = rest.substr(0, length) + "/" + name;
            if (access(file.c_str(), X_OK) == 0) return file;
            rest.erase(0, length + 1);
        }
    }
    return "";
}

std::vector<char *> program_environment()
{
    std::vector<char *> environment;
    for (char **entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("HAKMEM_") && !text.starts_with("DEBUGINFOD_"))
            environment.push_back(*entry);
    }
    environment.push_back(nullptr);
    return environment;
}

std::string program_output(const std::vector<std::string> &words, int seconds_max)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return "";
    std::vector<char *> argv;
    for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<char *> environment = program_environment();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = -1;
    const int error = posix_spawn(&child, words[0].c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string out;
    if (error == 0) {
        out = read_until_end(ends[0], child, seconds_max);
        while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    }
    close(ends[0]);
    return out;
}

}  // namespace stress
