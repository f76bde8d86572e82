// The monitor thread: samples memory, prints progress, ends a run that hangs, and stops a run before it takes all of
// the machine's memory.
//
// It reads the seats' counters relaxed. The only thing it writes that a worker reads is the stop flag of a failed run,
// so it adds no ordering.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/judge/failure.h"
#include "engine/judge/memory.h"
#include "engine/judge/samples.h"
#include "engine/seat/seat.h"

namespace stress {

// What a run that hangs says on stderr before it ends with status 1.
inline constexpr const char *kWatchdogWords = "hakmem-stress: watchdog: ";

struct MonitorSettings {
    int progress_fd;          // where progress goes
    // 0: never. A run hangs in which no op is completed for this long while its threads use no processor time, or use
    // this much of it. One that gets no processor is given up as too slow after thirty times as long.
    double watchdog_seconds;
    std::uint64_t seed;
    std::string reproduce; // the command that repeats this run
    bool check; // whether runaway memory is a failure
    // Called before a hung run is ended, to write what the run must leave behind.
    std::function<void(const std::string &detail)> on_hang;
};

class Monitor {
  public:
    Monitor(MemoryMeter &meter, const Mapped<Seat *> &seats, FailureLog &failures, MonitorSettings settings);
    ~Monitor();
    Monitor(const Monitor &) = delete;
    Monitor &operator=(const Monitor &) = delete;

    // Ends the thread. The samples are then complete.
    void stop();
    const SampleLog &samples() const { return samples_; }

  private:
    static void *thread_entry(void *self);
    void loop();
    std::uint64_t ops_total() const;
    void watch(std::uint64_t now_ns, std::uint64_t ops);
    bool works(double waited_seconds);
    void watch_memory(const MemorySample &sample);
    void count_mappings(std::uint64_t now_ns);
    void show(std::uint64_t now_ns, std::uint64_t ops, const MemorySample &sample);
    [[noreturn]] void bark();
    [[noreturn]] void give_up();

    MemoryMeter &meter_;
    const Mapped<Seat *> &seats_;
    FailureLog &failures_;
    MonitorSettings settings_;
    SampleLog samples_;
    bool terminal_;
    bool line_open_ = false;
    std::uint64_t start_ns_, moved_ns_, shown_ns_, looked_ns_;
    double waited_seconds_ = 0, moved_cpu_seconds_ = 0; // since the last op was completed; processor time by then
    std::uint64_t ask_again_ns_ = 0;
    std::uint64_t count_mappings_ns_ = 0; // not before
    std::uint64_t moved_ops_ = 0, shown_ops_ = 0;
    std::atomic<bool> quit_{false};
    pthread_t thread_{};
    bool running_;
};

} // namespace stress
