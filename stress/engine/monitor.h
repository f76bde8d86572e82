// The monitor thread: samples memory, prints progress, and ends a run that hangs.
//
// It reads the seats' counters relaxed and writes nothing that a worker reads, so it adds no ordering.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/memory.h"

namespace stress {

struct MonitorSettings {
    int progress_fd;          // where progress goes
    double watchdog_seconds;  // 0: never
    std::uint64_t seed;
    std::string reproduce;    // the command that repeats this run
};

class Monitor {
public:
    Monitor(MemoryMeter &meter, const Mapped<Seat *> &seats, MonitorSettings settings);
    ~Monitor();
    Monitor(const Monitor &) = delete;
    Monitor &operator=(const Monitor &) = delete;

private:
    static void *thread_entry(void *self);
    void loop();
    std::uint64_t ops_total() const;
    void watch(std::uint64_t now_ns, std::uint64_t ops);
    void show(std::uint64_t now_ns, std::uint64_t ops, const MemorySample &sample);
    [[noreturn]] void bark();

    MemoryMeter &meter_;
    const Mapped<Seat *> &seats_;
    MonitorSettings settings_;
    bool terminal_;
    bool line_open_ = false;
    std::uint64_t start_ns_, moved_ns_, shown_ns_;
    std::uint64_t moved_ops_ = 0, shown_ops_ = 0;
    std::atomic<bool> quit_{false};
    pthread_t thread_{};
    bool running_;
};

}  // namespace stress
