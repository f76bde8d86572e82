#include "campaign/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/watch/outside.h"
#include "engine/watch/watcher.h"

namespace stress {
namespace {

constexpr std::size_t kLineBytesMax = 2000;
constexpr std::size_t kJsonBytesMax = std::size_t{16} << 20;
constexpr std::size_t kErrBytesMax = std::size_t{64} << 10;
constexpr int kPollMs = 5;
constexpr double kBusyTimes = 6, kSlowTimes = 6;
constexpr double kTickSeconds = 0.2;

struct Fd {
    int fd = -1;
    Fd() = default;
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    ~Fd() { close_now(); }
    void close_now()
    {
        if (fd >= 0) close(fd);
        fd = -1;
    }
};

// The last non-empty line of a stream, without escape sequences.
struct LastLine {
    std::string complete, current;

    void add(const char *bytes, std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i) {
            const char c = bytes[i];
            if (c == '\n' || c == '\r') {
                if (!current.empty()) complete.swap(current);
                current.clear();
            } else if (current.size() < kLineBytesMax) {
                current += c;
                if (c == 'K' && current.size() >= 3 && current.compare(current.size() - 3, 2, "\033[") == 0)
                    current.resize(current.size() - 3);
            }
        }
    }
    const std::string &text() const { return current.empty() ? complete : current; }
};

// A pipe to a child, read without waiting.
struct Stream {
    Fd read_end, write_end;
    LastLine last;
    std::string end; // at most twice kErrBytesMax

    bool open()
    {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return false;
        read_end.fd = ends[0];
        write_end.fd = ends[1];
        return fcntl(read_end.fd, F_SETFL, O_NONBLOCK) == 0;
    }
    void add(const char *bytes, std::size_t count)
    {
        last.add(bytes, count);
        if (end.size() > kErrBytesMax) end.erase(0, end.size() - kErrBytesMax);
        end.append(bytes, count);
    }
    void take()
    {
        char buffer[16384];
        while (read_end.fd >= 0) {
            const ssize_t got = ::read(read_end.fd, buffer, sizeof buffer);
            if (got > 0) add(buffer, static_cast<std::size_t>(got));
            else if (got < 0 && errno == EINTR) continue;
            else if (got < 0 && errno == EAGAIN) return;
            else read_end.close_now();
        }
    }
};

// The environment as the user gave it, without the subject that this program may have been started under.
std::vector<std::string> clean_environment()
{
    constexpr std::string_view guard_key = "HAKMEM_STRESS_SUBJECT=", preload_key = "LD_PRELOAD=";
    std::string subject;
    std::vector<std::string> kept;
    for (char **entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with(guard_key)) subject = text.substr(guard_key.size());
    }
    for (char **entry = environ; *entry != nullptr; ++entry) {
        std::string text = *entry;
        if (text.starts_with(guard_key)) continue;
        if (!subject.empty() && text.starts_with(std::string(preload_key) + subject)) {
            std::string rest = text.substr(preload_key.size() + subject.size());
            if (rest.empty()) continue;
            if (rest[0] == ':') text = std::string(preload_key) + rest.substr(1);
        }
        kept.push_back(text);
    }
    return kept;
}

std::vector<char *> pointers(std::vector<std::string> &texts)
{
    std::vector<char *> result;
    for (std::string &text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

// Returns 0 or an errno value.
int spawn(const ChildSpec &spec, const Stream &out, const Stream &err, const Fd &json, pid_t &child)
{
    std::vector<std::string> words{spec.name}, environment = clean_environment();
    words.insert(words.end(), spec.words.begin(), spec.words.end());
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (int error = posix_spawn_file_actions_init(&actions); error != 0) return error;
    if (int error = posix_spawnattr_init(&attributes); error != 0) return error;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (int signal_number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) sigaddset(&defaults, signal_number);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.write_end.fd, 1);
    posix_spawn_file_actions_adddup2(&actions, err.write_end.fd, 2);
    posix_spawn_file_actions_adddup2(&actions, json.fd, 3);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&child, spec.program.c_str(), &actions, &attributes, pointers(words).data(),
                                  pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

std::string json_text(int fd)
{
    std::string text;
    char buffer[65536];
    for (ssize_t got; (got = pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;) {
        text.append(buffer, static_cast<std::size_t>(got));
        if (text.size() > kJsonBytesMax) return "";  // judged like a run that left no result
    }
    return text;
}

// Without reaping it.
bool has_ended(pid_t child)
{
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? info.si_pid == child
                                                                                            : errno != EINTR;
}

void wait_until_end(const ChildSpec &spec, const ChildTick &tick, pid_t child, Stream &out, Stream &err,
                    ChildOutcome &outcome)
{
    const double start = now_seconds();
    double next_tick = kTickSeconds;
    bool killed = false;
    WatchLimits limits{spec.timeout_seconds, kBusyTimes * spec.timeout_seconds, kSlowTimes * spec.timeout_seconds, 0};
    limits.memory_bytes = spec.memory_cap_bytes != 0 ? spec.memory_cap_bytes : memory_cap_bytes();
    Watcher watcher(child, limits);
    while (true) {
        pollfd polled[2] = {{out.read_end.fd, POLLIN, 0}, {err.read_end.fd, POLLIN, 0}};
        poll(polled, 2, kPollMs);
        out.take();
        err.take();
        outcome.seconds = now_seconds() - start;
        if (has_ended(child)) break;
        if (killed) continue;
        const Stuck stuck = watcher.look();
        const bool late = stuck != Stuck::No;
        bool stop = late;
        if (late) outcome.stuck = watcher.text(stuck);
        if (!late && outcome.seconds >= next_tick) {
            next_tick = outcome.seconds + kTickSeconds;
            stop = !tick(outcome.seconds, err.last.text().empty() ? out.last.text() : err.last.text());
        }
        if (!stop) continue;
        outcome.end = !late                    ? ChildEnd::Interrupted
                      : stuck == Stuck::Slow   ? ChildEnd::Slow
                      : stuck == Stuck::Memory ? ChildEnd::Memory
                                               : ChildEnd::TimedOut;
        kill(child, SIGKILL);
        killed = true;
    }
    // Kills whatever the run started and may have left behind. The child has not been reaped yet, so its process group
    // cannot belong to anyone else.
    kill(-child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    out.take();
    err.take();
    if (killed) return;
    outcome.end = killed_from_outside(status) ? ChildEnd::Outside
                  : WIFSIGNALED(status)       ? ChildEnd::Signalled
                                              : ChildEnd::Exited;
    outcome.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

ChildOutcome child_try(const ChildSpec &spec, const ChildTick &tick)
{
    ChildOutcome outcome;
    Stream out, err;
    Fd json;
    json.fd = memfd_create("hakmem-stress-result", MFD_CLOEXEC);
    if (json.fd < 0 || !out.open() || !err.open()) {
        outcome.code = errno;
        return outcome;
    }
    pid_t child = -1;
    outcome.code = spawn(spec, out, err, json, child);
    if (outcome.code != 0) return outcome;
    out.write_end.close_now();
    err.write_end.close_now();
    wait_until_end(spec, tick, child, out, err, outcome);
    outcome.out_last_line = child_words_forget(out.last.text());
    outcome.err_last_line = child_words_forget(err.last.text());
    if (err.end.size() > kErrBytesMax) err.end.erase(0, err.end.size() - kErrBytesMax);
    outcome.err_end = child_words_forget(err.end);
    outcome.json = json_text(json.fd);
    return outcome;
}

} // namespace

std::string child_words_forget(std::string text)
{
    const std::string ours = std::string(" --json ") + kChildJsonPath;
    for (std::size_t at; (at = text.find(ours)) != std::string::npos;) text.erase(at, ours.size());
    return text;
}

ChildOutcome child_run(const ChildSpec &spec, const ChildTick &tick)
{
    const OutsideWatch outside;
    ChildOutcome outcome;
    for (unsigned tries = 0; tries < kOutsideTries; ++tries) {
        outcome = child_try(spec, tick);
        if (outcome.end != ChildEnd::Outside) return outcome;
    }
    outcome.stuck = outside.text();
    return outcome;
}

} // namespace stress
