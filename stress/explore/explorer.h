// Explorer: runs a scenario in every schedule with a few preemptions, fewest first, or replays one schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "explore/fibers/image.h"
#include "explore/names.h"
#include "explore/runner.h"
#include "explore/scenario.h"
#include "explore/sweep.h"

namespace stress {

// The state of the heap that a scenario's setup begins with: as the process starts, or after a thread that has ended and
// left its heap with caches that hold a little, or all that they may hold.
enum class ExploreStart { Fresh, Warm, Full };

struct ExploreRequest {
    unsigned threads = 2;
    unsigned bound = 2; // preemptions, at most
    double seconds = 0; // time limit of the search; 0: none
    ExploreStart start = ExploreStart::Fresh;
};

struct ExploreResult {
    Sweep sweep; // of the last bound; `runs` counts those of all bounds
    std::uint32_t shared = 0; // words that several threads access, at least one of them not only reading
    double seconds = 0;
    std::optional<unsigned> bound_reached; // the last bound of which all schedules were run and held
    bool complete = false; // all schedules within the bound were run, or one failed
};

// One per process. If it cannot get the allocator's memory, it ends the process with a line that says why.
class Explorer {
  public:
    Explorer();
    ~Explorer();
    Explorer(const Explorer &) = delete;
    Explorer &operator=(const Explorer &) = delete;

    ExploreResult explore(const ExploreScenario &scenario, const ExploreRequest &request);

    // Runs one schedule. `diverged`: the schedule is not one of this scenario.
    const Outcome &replay(const ExploreScenario &scenario, unsigned threads, const Schedule &schedule, bool &diverged,
                          ExploreStart start = ExploreStart::Fresh);

    // The last run, one line per access. `all`: includes accesses to words of one thread alone.
    std::string interleaving(bool all) const;

    Runner &runner() { return runner_; }

  private:
    void prepare(const ExploreScenario &scenario, unsigned threads, ExploreStart start);
    void reset();
    void judge(const ExploreScenario &scenario);
    void judge_rest();

    Runner runner_;
    Shares shares_;
    World world_{runner_};
    World::State kept_{};
    Image fresh_, image_;
    Program program_;
    Names names_{runner_.fibers()};
};

} // namespace stress
