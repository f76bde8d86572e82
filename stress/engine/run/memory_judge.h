// Judges the memory of a run by the rules of memory_law.h. Called by the main thread, when no thread is in the subject.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/judge/memory_law.h"
#include "engine/run/result.h"
#include "engine/run/testbed.h"

namespace stress {

class MemoryJudge {
  public:
    // swing_bytes: as the plan says.
    MemoryJudge(Testbed &testbed, std::uint64_t swing_bytes)
        : testbed_(testbed), swing_bytes_(swing_bytes), rests_(testbed.options.laps)
    {}

    // Before the first lap.
    void begin() { first_mapping_count_ = testbed_.meter.sample_mappings(); }

    // After each lap.
    void rest();

    // Once everything is freed. Waits for memory to return to the system, and fills in what the result says of memory.
    // run_seconds: how long the laps took.
    void judge(Result &result, double run_seconds);

  private:
    void judge_plateau(Result &result);
    void judge_mappings(const Result &result);
    void judge_resident(Result &result);
    void await_return(Result &result, double run_seconds);
    bool comes_back(const PlateauGrowth &growth);
    void pause();

    Testbed &testbed_;
    std::uint64_t swing_bytes_;
    Mapped<RestSample> rests_;
    std::size_t rest_count_ = 0;
    std::uint64_t first_mapping_count_ = 0;
};

} // namespace stress
