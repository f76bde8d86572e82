#include "engine/subject/subject_probe.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/libc.h"

namespace stress {
namespace {

constexpr int kProbeMs = 60'000; // a library that takes longer is left to the run, which has its own watchdog
constexpr std::size_t kSaidBytesMax = 16384;

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr unsigned kMachine = EM_RISCV;
#else
constexpr unsigned kMachine = EM_NONE; // not known: any
#endif

std::string header_fault(int fd)
{
    Elf64_Ehdr header{};
    struct stat status{};
    if (fstat(fd, &status) != 0) return std::strerror(errno);
    if (!S_ISREG(status.st_mode) || pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_type != ET_DYN)
        return "not a 64-bit ELF shared library";
    if (kMachine != EM_NONE && header.e_machine != kMachine)
        return "made for another processor (ELF machine " + std::to_string(header.e_machine) + ", this one is " +
               std::to_string(kMachine) + ")";
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr part{};
        const auto offset = static_cast<off_t>(header.e_phoff + i * header.e_phentsize);
        if (pread(fd, &part, sizeof part, offset) != static_cast<ssize_t>(sizeof part)) return "cut short";
        std::uint64_t end = 0;
        if (part.p_type != PT_LOAD) continue;
        if (__builtin_add_overflow(part.p_offset, part.p_filesz, &end) || end > file_bytes)
            return "cut short: it has " + std::to_string(file_bytes) + " bytes of at least " + std::to_string(end);
    }
    return "";
}

// Reads until the child closes its end, or the time is over.
std::string all_said(int fd)
{
    std::string text;
    char buffer[4096];
    pollfd polled{fd, POLLIN, 0};
    while (poll(&polled, 1, kProbeMs) > 0) {
        const ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        if (text.size() < kSaidBytesMax) text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
}

// The line that says most: the loader's, else the program's, else the last.
std::string reason_in(const std::string &said)
{
    std::string best, last;
    for (std::size_t at = 0; at < said.size();) {
        const std::size_t end = std::min(said.find('\n', at), said.size());
        const std::string line = said.substr(at, end - at);
        at = end + 1;
        if (line.empty()) continue;
        last = line;
        if (best.empty() && line.rfind("ERROR: ld.so:", 0) == 0) best = line;
    }
    return best.empty() ? last : best;
}

std::string ending_of(int status, const std::string &said)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    const std::string reason = reason_in(said);
    if (WIFSIGNALED(status)) {
        const char *name = signal_name(WTERMSIG(status));
        return std::string("a program that is started with it dies of ") +
               (name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status))) +
               (reason.empty() ? "" : ": " + reason);
    }
    constexpr const char *own = "hakmem-stress: --allocator: ";
    return reason.rfind(own, 0) == 0 ? reason.substr(std::strlen(own))
           : reason.empty()          ? "a program that is started with it ends at once"
                                     : reason;
}

} // namespace

std::string library_fault(const std::string &path)
{
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return std::strerror(errno);
    const std::string fault = header_fault(fd);
    close(fd);
    return fault;
}

std::vector<std::string> subject_environment(const std::string &path)
{
    std::vector<std::string> words{std::string(kSubjectGuard) + "=" + path};
    std::string preload = "LD_PRELOAD=" + path;
    for (char **one = environ; *one != nullptr; ++one) {
        const std::string word = *one;
        if (word.rfind("LD_PRELOAD=", 0) == 0) preload += word.size() > 11 ? ":" + word.substr(11) : "";
        else if (word.rfind(std::string(kSubjectGuard) + "=", 0) != 0) words.push_back(word);
    }
    words.push_back(preload);
    return words;
}

std::vector<char *> pointers_to(std::vector<std::string> &words)
{
    std::vector<char *> pointers;
    for (std::string &word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

std::string subject_probe(const std::string &path, const std::string &allocator)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return "";
    std::vector<std::string> words{"hakmem-stress", "probe", allocator}, environment = subject_environment(path);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    pid_t child = -1;
    const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers_to(words).data(),
                                  pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string fault;
    if (error == 0) {
        const std::string said = all_said(ends[0]);
        int status = 0;
        pid_t ended = waitpid(child, &status, WNOHANG);
        for (int tries = 0; ended == 0 && tries < 1000; ++tries) { // it closed its output, so it ends now
            usleep(1000);
            ended = waitpid(child, &status, WNOHANG);
        }
        if (ended == child) {
            fault = ending_of(status, said);
        } else {
            kill(child, SIGKILL);
            while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        }
    }
    close(ends[0]);
    return fault;
}

} // namespace stress
