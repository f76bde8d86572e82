// One run: what a scenario works with, and the verdict on it.
//
// A scenario prepares its memory, then for each phase: phase_begin, start threads on seats, phase_end.
// What it does outside phases (filling windows, freeing what is left) is judged but not timed. It must
// have freed every block when it returns, unless the run has failed: then the heap is left alone.
#pragma once

#include <atomic>
#include <string>

#include "engine/claim_map.h"
#include "engine/failure.h"
#include "engine/memory.h"
#include "engine/options.h"
#include "engine/oracle.h"
#include "engine/registry.h"
#include "engine/result.h"
#include "engine/seat.h"
#include "engine/support.h"

namespace stress {

class Run {
public:
    Run(const Options &run_options, std::uint64_t seed, Support support);
    ~Run();
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    // A share (0 to 1) of the run's time and ops; the first `worker_count` seats divide the ops.
    void phase_begin(double share, std::size_t worker_count);
    void start(Seat &seat, Seat::Body body, void *argument);
    // Waits for all threads. Stops them when the time of the phase is up.
    void phase_end();

    Seat &seat(std::size_t index) { return *seats_[index]; }
    const Mapped<Seat *> &seats() const { return seats_; }
    MemoryMeter &meter() { return meter_; }
    FailureLog &failures() { return failures_; }
    bool failed() const { return failures_.any(); }

    const Options &options;

    // Runs the scenario, judges what can be judged at the end only, and fills in the result.
    Result run(const Scenario &scenario, std::uint64_t seed, const std::string &reproduce);

private:
    void judge_balance();
    void judge_memory(Result &result);
    std::uint64_t ops_total() const;

    std::atomic<bool> stop_{false};
    FailureLog failures_{stop_};
    ClaimMap claims_;
    Oracle oracle_{claims_, failures_};
    Mapped<Seat *> seats_;
    MemoryMeter meter_{claims_, seats_};

    std::uint64_t phase_start_ns_ = 0, deadline_ns_ = 0, phase_start_ops_ = 0;
    std::uint64_t measured_ops_ = 0;
    double measured_seconds_ = 0;
};

}  // namespace stress
