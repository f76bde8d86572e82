// One run: executes a scenario's plan on seats, in laps, and gives the verdict.
//
// A lap is a share of the ops or of the time. Between two laps no thread is in the subject. There memory is sampled,
// and the laws of the subject's books are checked, if it shows them. At the end every remaining block is judged and
// freed, whatever the ops did.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/judge/claim_map.h"
#include "engine/judge/failure.h"
#include "engine/judge/memory.h"
#include "engine/judge/memory_law.h"
#include "engine/judge/oracle.h"
#include "engine/run/options.h"
#include "engine/run/result.h"
#include "engine/run/scenario.h"
#include "engine/seat/seat.h"
#include "engine/subject/support.h"
#include "engine/subject/whitebox.h"
#include "engine/team/process_ops.h"

namespace stress {

class Run {
  public:
    // The plan must outlive the run.
    Run(const Options &run_options, std::uint64_t seed, Support support, Plan &plan);
    ~Run();
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    const Mapped<Seat *> &seats() const { return seats_; }
    MemoryMeter &meter() { return meter_; }
    FailureLog &failures() { return failures_; }

    // The result so far, for a run that will not end by itself. Any thread.
    Result so_far(const std::string &scenario, const std::string &reproduce) const;

    // Runs the plan, judges what can only be judged at the end, and fills in the result.
    Result run(const std::string &scenario, const std::string &reproduce);

  private:
    bool failed() const { return failures_.any(); }
    void lap(std::uint32_t number, std::uint32_t count);
    void rest();
    void sweep();
    void judge_balance();
    void injection_begin();
    void injection_end();
    void hold_what_is_left();
    void let_go();
    void limit_begin();
    void limit_end();
    void sample_rest(std::uint32_t number);
    void judge_resident(Result &result);
    void judge_memory(Result &result);
    void judge_plateau(Result &result);
    void judge_mappings(const Result &result);
    void await_return(Result &result);
    void keep_awake();
    Witness witness() const { return seats_[0]->interp.witness(); }
    void fill_in(Result &result) const;
    std::uint64_t ops_total() const;

    const Options &options_;
    std::uint64_t seed_;
    std::uint64_t swing_bytes_;  // as the plan says
    std::atomic<bool> stop_{false};
    FailureLog failures_{stop_};
    ClaimMap claims_;
    std::unique_ptr<LineMap> lines_;  // only if the plan asks for it
    Oracle oracle_{claims_, failures_};
    Slots slots_;
    InterpShared shared_{oracle_, slots_, stop_};
    Mapped<Seat *> seats_;
    Mapped<const Counters *> counters_;  // of the seats
    ProcessNeeds needs_;
    const Injection injection_;
    ProcessFigures injected_;  // what the injection did
    InUse in_use_before_;      // by the subject's books
    void *held_ = nullptr;     // blocks that the run must do without
    MemoryMeter meter_{claims_, counters_};
    Mapped<RestSample> rests_;
    std::size_t rest_count_ = 0;
    std::uint64_t first_mapping_count_ = 0;

    std::uint64_t start_ns_ = 0;
    std::uint64_t measured_ops_ = 0;
    double measured_seconds_ = 0;
};

}  // namespace stress
