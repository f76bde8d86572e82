#include "engine/watch/figures.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace stress {
namespace {

using Text = char[4096];

// Reads the start of a file of /proc, whose path is the format's. Empty if there is none.
[[gnu::format(printf, 2, 3)]] void proc_read(Text &text, const char *format, ...)
{
    char path[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    std::size_t used = 0;
    if (fd >= 0) {
        for (ssize_t got; used + 1 < sizeof text && (got = read(fd, text + used, sizeof text - 1 - used)) > 0;)
            used += static_cast<std::size_t>(got);
        close(fd);
    }
    text[used] = '\0';
}

// The number after `key`; 0 if there is none.
std::uint64_t number_after(const char *text, const char *key)
{
    const char *at = std::strstr(text, key);
    return at == nullptr ? 0 : std::strtoull(at + std::strlen(key), nullptr, 10);
}

// A field of a stat file, counted from the state, which is field 0: the name before it may hold anything.
const char *stat_field(const char *text, std::size_t index)
{
    const char *at = std::strrchr(text, ')');
    if (at == nullptr || at[1] == '\0') return "";
    for (at += 2; index > 0; --index) {
        at = std::strchr(at, ' ');
        if (at == nullptr) return "";
        ++at;
    }
    return at;
}

bool is_runnable(const Text &stat)
{
    const char state = *stat_field(stat, 0);
    return state == 'R' || state == 'D';
}

// Calls visit(thread) for each thread of a process; process 0: this one.
template <typename Visit> void each_thread(pid_t process, Visit &&visit)
{
    char path[40];
    if (process == 0) std::snprintf(path, sizeof path, "/proc/self/task");
    else std::snprintf(path, sizeof path, "/proc/%d/task", process);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    alignas(8) char entries[8192];
    for (long length; (length = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;)
        for (long at = 0; at < length;) {
            // Inode and offset of 8 bytes each, then the length of the entry, its type, its name.
            unsigned short bytes = 0;
            std::memcpy(&bytes, entries + at + 16, sizeof bytes);
            const char *name = entries + at + 19;
            if (*name >= '0' && *name <= '9') visit(static_cast<pid_t>(std::strtol(name, nullptr, 10)));
            at += bytes;
        }
    close(fd);
}

double process_cpu_seconds(pid_t process)
{
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

void add_process(TreeFigures &figures, pid_t process)
{
    constexpr std::size_t children_user = 13, children_system = 14;  // cutime and cstime
    Text text;
    proc_read(text, "/proc/%d/stat", process);
    const char state = *stat_field(text, 0);
    if (state == '\0') return;
    const std::uint64_t ticks = std::strtoull(stat_field(text, children_user), nullptr, 10) +
                                std::strtoull(stat_field(text, children_system), nullptr, 10);
    figures.cpu_seconds +=
        process_cpu_seconds(process) + static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
    if (state == 'Z' || state == 'X') return;
    figures.processes.add(process);
    proc_read(text, "/proc/%d/statm", process);
    char *rest = nullptr;
    std::strtoull(text, &rest, 10);
    const std::uint64_t resident = std::strtoull(rest, &rest, 10), of_files = std::strtoull(rest, &rest, 10);
    figures.private_bytes +=
        (resident - std::min(resident, of_files)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void add_children(Processes &found, const Text &children)
{
    for (const char *at = children;;) {
        char *end = nullptr;
        const long process = std::strtol(at, &end, 10);
        if (end == at) return;
        found.add(static_cast<pid_t>(process));
        at = end;
    }
}

}  // namespace

TreeFigures tree_figures(pid_t child)
{
    TreeFigures figures;
    Processes found;
    found.add(child);
    for (std::size_t next = 0; next < found.count; ++next) {
        const pid_t process = found.ids[next];
        add_process(figures, process);
        each_thread(process, [&](pid_t thread) {
            Text text;
            proc_read(text, "/proc/%d/task/%d/stat", process, thread);
            figures.runnable |= is_runnable(text);
            proc_read(text, "/proc/%d/task/%d/children", process, thread);
            add_children(found, text);
        });
    }
    return figures;
}

bool others_runnable()
{
    const auto me = static_cast<pid_t>(syscall(SYS_gettid));
    bool runnable = false;
    each_thread(0, [&](pid_t thread) {
        Text text;
        proc_read(text, "/proc/self/task/%d/stat", thread);
        runnable |= thread != me && is_runnable(text);
    });
    return runnable;
}

unsigned others_runnable_count()
{
    const auto me = static_cast<pid_t>(syscall(SYS_gettid));
    unsigned count = 0;
    each_thread(0, [&](pid_t thread) {
        Text text;
        if (thread == me) return;
        proc_read(text, "/proc/self/task/%d/stat", thread);
        count += *stat_field(text, 0) == 'R';
    });
    return count;
}

double processors_available()
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    double processors = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    Text text;
    proc_read(text, "/proc/self/cgroup");
    const char *start = std::strstr(text, "0::/");
    if (start == nullptr) return processors;
    std::string group(start + 3, std::strcspn(start + 3, "\n"));
    for (;; group.erase(group.rfind('/'))) {
        if (group == "/") group.clear();
        // "150000 100000": the us that it may use, in each period of us; or "max 100000".
        proc_read(text, "/sys/fs/cgroup%s/cpu.max", group.c_str());
        char *rest = nullptr;
        const double used_us = std::strtod(text, &rest), of_us = std::strtod(rest, nullptr);
        if (used_us > 0 && of_us > 0) processors = std::min(processors, used_us / of_us);
        if (group.empty()) return processors;
    }
}

std::uint64_t tree_proportional_bytes(const Processes &processes)
{
    std::uint64_t bytes = 0;
    for (pid_t process : processes) {
        Text text;
        proc_read(text, "/proc/%d/smaps_rollup", process);
        bytes += number_after(text, "\nPss:") * 1024;
    }
    return bytes;
}

bool tree_has_thread(const Processes &processes, pid_t thread)
{
    return std::any_of(processes.begin(), processes.end(), [&](pid_t process) {
        Text text;
        proc_read(text, "/proc/%d/task/%d/stat", process, thread);
        return text[0] != '\0';
    });
}

std::uint64_t available_bytes()
{
    Text text;
    proc_read(text, "/proc/meminfo");
    std::uint64_t available = number_after(text, "MemAvailable:") * 1024;
    // The groups of this process: "0::/a/b" is of version 2, "4:memory:/a/b" of version 1. Inside a container the group
    // may be mounted as the root.
    proc_read(text, "/proc/self/cgroup");
    const std::string groups = text;
    for (const auto &[key, mount, limit_file, used_file] :
         {std::array<const char *, 4>{"0::", "/sys/fs/cgroup", "/memory.max", "/memory.current"},
          std::array<const char *, 4>{":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                      "/memory.usage_in_bytes"}}) {
        const std::size_t at = groups.find(key);
        if (at == std::string::npos) continue;
        const std::size_t start = at + std::strlen(key);
        std::string group = groups.substr(start, groups.find('\n', start) - start);
        for (;; group.erase(group.rfind('/'))) {
            if (group == "/") group.clear();
            proc_read(text, "%s", (mount + group + limit_file).c_str());
            if (text[0] >= '0' && text[0] <= '9') {
                const std::uint64_t most = std::strtoull(text, nullptr, 10);
                proc_read(text, "%s", (mount + group + used_file).c_str());
                available = std::min(available, most - std::min(most, std::uint64_t{std::strtoull(text, nullptr, 10)}));
            }
            if (group.empty()) break;
        }
    }
    return available;
}

} // namespace stress
