// Judges whether a child still works: time is measured in work, so that a busy machine accuses nobody.
//
//   Idle    it and its descendants used next to no processor time and finished no call for idle_seconds: it hangs
//   Busy    one call (or, where calls are not counted, the child) used busy_seconds of processor time: it never ends
//   Slow    neither, but wall_seconds have passed. No accusation: the machine may be busy
//   Memory  it took more than memory_bytes
//
// Time in which the watcher itself did not run (a busy or suspended machine) counts for nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "engine/watch/figures.h"

namespace stress {

struct WatchLimits {
    double idle_seconds = 10;
    double busy_seconds = 60;
    double wall_seconds = 600;
    std::uint64_t memory_bytes = 0;  // 0: no cap
};

// If `--deadline SECONDS` was given: a child hangs after that time without processor time, or after six times as
// much processor time; after sixty times as much it is slow.
WatchLimits watch_limits(double deadline_seconds);

// The cap of a child where none was asked for: half of what the machine has available, and at least 512 MiB.
std::uint64_t memory_cap_bytes();

enum class Stuck { No, Idle, Busy, Slow, Memory };

class Watcher {
  public:
    // `progress`: counts finished calls of the child; may be empty.
    Watcher(pid_t child, const WatchLimits &limits, std::function<std::uint64_t()> progress = {});
    ~Watcher();
    Watcher(const Watcher &) = delete;
    Watcher &operator=(const Watcher &) = delete;

    // Call it often while the child has not ended: every 5 ms bounds what the child can take beyond the cap.
    Stuck look();

    // The child and its descendants, as last seen.
    const Processes &processes() const { return processes_; }

    // Processor time since a call of the child ended; where calls are not counted, of the child.
    double seconds_in_call() const { return cpu_seconds_ - cpu_at_progress_; }

    // "used no processor time for 10 s", "used 60 s of processor time in one call", "took 9.1 GiB of memory; the cap is
    // 9.0 GiB, ..." for what look() returned.
    std::string text(Stuck stuck) const;

  private:
    bool over_cap();
    Stuck judge_second(double counted_seconds);

    pid_t child_;
    WatchLimits limits_;
    std::function<std::uint64_t()> progress_;
    int statm_ = -1;
    Processes processes_;
    double start_, last_look_, last_sample_;
    double counted_seconds_ = 0; // since the last judged second
    double cpu_seconds_ = 0, cpu_judged_ = 0; // so far; at the last judged second
    double cpu_at_progress_ = 0, idle_ = 0;
    std::uint64_t progress_seen_ = 0, taken_bytes_ = 0;
    int samples_ = 0, runnable_samples_ = 0;
};

} // namespace stress
