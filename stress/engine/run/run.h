// One run: executes a scenario's plan on seats, in laps, and gives the verdict.
//
// A lap is a share of the ops or of the time. Between two laps no thread is in the subject. There memory is sampled,
// and the laws of the subject's books are checked, if it shows them. At the end every remaining block is judged and
// freed, whatever the ops did.
//
// Its parts: the testbed has the seats and what their ops meet, laps.h runs the threads, injector.h disturbs them, and
// memory_judge.h judges memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/injector.h"
#include "engine/run/laps.h"
#include "engine/run/memory_judge.h"
#include "engine/run/result.h"
#include "engine/run/testbed.h"
#include "engine/team/process_ops.h"

namespace stress {

class Run {
  public:
    // The options and the plan must outlive the run.
    Run(const Options &options, std::uint64_t seed, Support support, Plan &plan);
    ~Run();
    Run(const Run &) = delete;
    Run &operator=(const Run &) = delete;

    const Mapped<Seat *> &seats() const { return testbed_.seats; }
    MemoryMeter &meter() { return testbed_.meter; }
    FailureLog &failures() { return testbed_.failures; }

    // The result so far, for a run that will not end by itself. Any thread.
    Result so_far(const std::string &scenario, const std::string &reproduce) const;

    // Runs the plan, judges what can only be judged at the end, and fills in the result.
    Result run(const std::string &scenario, const std::string &reproduce);

  private:
    void run_laps(Result &result);
    void check_books();
    void judge_profile();
    void sweep();
    void judge(Result &result);
    void judge_balance();
    void judge_claims(const Result &result);
    void fill_in_peaks(Result &result) const;
    void fill_in_blocks(Result &result) const;
    void fill_in(Result &result) const;

    Testbed testbed_;
    std::uint64_t seed_;
    ProcessNeeds needs_;
    Injector injector_;
    MemoryJudge memory_;
    Laps laps_{testbed_, injector_};
    std::vector<Claim> claims_;
    const decltype(Plan::judge_profile) profile_judge_;
    const bool refuses_memory_;
    std::uint64_t start_ns_ = 0;
    std::uint64_t start_rss_bytes_ = 0;
};

} // namespace stress
