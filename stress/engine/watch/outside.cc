#include "engine/watch/outside.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace stress {
namespace {

constexpr std::uint64_t kUnknown = UINT64_MAX;

std::uint64_t oom_kills()
{
    constexpr std::string_view key = "\noom_kill ";
    const int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return kUnknown;
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(got));
    close(fd);
    const std::size_t at = text.find(key);
    return at == std::string::npos ? kUnknown : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

std::string sender(std::uint64_t before, std::uint64_t after)
{
    if (before == kUnknown || after == kUnknown) return "this kernel does not tell who sent it";
    if (after == before) return "it was not the kernel's out-of-memory killer";
    return fmt::format("the kernel's out-of-memory killer ended {} process{} meanwhile", after - before,
                       after - before == 1 ? "" : "es");
}

} // namespace

bool killed_from_outside(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

OutsideWatch::OutsideWatch() : oom_kills_(oom_kills()) {}

std::string OutsideWatch::text() const
{
    return fmt::format("inconclusive: SIGKILL from outside ended each of {} runs; {}", kOutsideTries,
                       sender(oom_kills_, oom_kills()));
}

} // namespace stress
