#include "engine/watch/watcher.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/progress.h"

namespace stress {
namespace {

constexpr double kCountedMax = 0.1;     // of one look; the rest is time in which the watcher did not run
constexpr double kSampleSeconds = 0.1;  // between two looks at all threads
constexpr double kIdleShare = 0.05;     // a child in which threads only poll for one another uses less
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

}  // namespace

WatchLimits watch_limits(double deadline_seconds)
{
    return {deadline_seconds, 6 * deadline_seconds, 60 * deadline_seconds, 0};
}

std::uint64_t memory_cap_bytes()
{
    return std::max(512 * kMib, available_bytes() / 2);
}

Watcher::Watcher(pid_t child, const WatchLimits &limits, std::function<std::uint64_t()> progress)
    : child_(child), limits_(limits), progress_(std::move(progress)), start_(now_seconds()), last_look_(start_),
      last_sample_(start_)
{
    processes_.add(child);
    if (limits.memory_bytes == 0) return;
    char path[40];
    std::snprintf(path, sizeof path, "/proc/%d/statm", child);
    statm_ = open(path, O_RDONLY | O_CLOEXEC);
}

Watcher::~Watcher()
{
    if (statm_ >= 0) close(statm_);
}

// Pages that a fork shares are counted in each process. Where that sum is above the cap, everything is stopped and
// counted exactly.
bool Watcher::over_cap()
{
    for (pid_t process : processes_) kill(process, SIGSTOP);
    taken_bytes_ = tree_proportional_bytes(processes_);
    if (taken_bytes_ > limits_.memory_bytes) return true;
    for (pid_t process : processes_) kill(process, SIGCONT);
    return false;
}

Stuck Watcher::judge_second(double counted_seconds)
{
    const double used = cpu_seconds_ - cpu_judged_;
    const std::uint64_t progress = progress_ ? progress_() : 0;
    const bool moved = progress != progress_seen_;
    // A thread that is always runnable and gets no processor is starved by others; it does not hang.
    const bool idle = !moved && used < kIdleShare * counted_seconds && 2 * runnable_samples_ <= samples_;
    idle_ = idle ? idle_ + counted_seconds : 0;
    if (moved) {
        progress_seen_ = progress;
        cpu_at_progress_ = cpu_seconds_;
    }
    cpu_judged_ = cpu_seconds_;
    samples_ = runnable_samples_ = 0;
    counted_seconds_ = 0;
    if (idle_ >= limits_.idle_seconds) return Stuck::Idle;
    return seconds_in_call() > limits_.busy_seconds ? Stuck::Busy : Stuck::No;
}

Stuck Watcher::look()
{
    const double now = now_seconds();
    counted_seconds_ += std::min(now - last_look_, kCountedMax);
    last_look_ = now;
    if (limits_.memory_bytes != 0 && statm_ >= 0) {
        char text[128];
        const ssize_t length = pread(statm_, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        char *rest = nullptr;
        std::strtoull(text, &rest, 10);
        const std::uint64_t bytes =
            std::strtoull(rest, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        if (bytes > limits_.memory_bytes && over_cap()) return Stuck::Memory;
    }
    if (now < last_sample_ + kSampleSeconds) return Stuck::No;
    last_sample_ = now;
    const TreeFigures figures = tree_figures(child_);
    if (figures.processes.count > 0) processes_ = figures.processes;
    cpu_seconds_ = std::max(cpu_seconds_, figures.cpu_seconds);
    ++samples_;
    runnable_samples_ += figures.runnable;
    if (limits_.memory_bytes != 0 && figures.private_bytes > limits_.memory_bytes && over_cap()) return Stuck::Memory;
    if (counted_seconds_ >= std::min(1.0, limits_.idle_seconds / 2))
        if (const Stuck stuck = judge_second(counted_seconds_); stuck != Stuck::No) return stuck;
    return now - start_ > limits_.wall_seconds ? Stuck::Slow : Stuck::No;
}

std::string Watcher::text(Stuck stuck) const
{
    switch (stuck) {
    case Stuck::No: return "";
    case Stuck::Idle: return fmt::format("hangs: used no processor time for {:.4g} s", limits_.idle_seconds);
    case Stuck::Busy:
        return fmt::format("never ends: used {:.0f} s of processor time{}", seconds_in_call(),
                           progress_ ? " without finishing a call" : "");
    case Stuck::Slow:
        return fmt::format(
            "did not end in {:.4g} s, of which it had a processor for {:.1f} s; not a failure, since the "
            "machine may be busy",
            limits_.wall_seconds, cpu_seconds_);
    case Stuck::Memory:
        return fmt::format("took {} of memory; the cap is {}", format_bytes(taken_bytes_),
                           format_bytes(limits_.memory_bytes));
    }
    return "";
}

}  // namespace stress
