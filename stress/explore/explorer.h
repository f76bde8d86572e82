// Explorer: runs a scenario in every schedule with a few preemptions, fewest first, and replays one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "explore/image.h"
#include "explore/names.h"
#include "explore/runner.h"
#include "explore/scenario.h"
#include "explore/sweep.h"

namespace stress {

struct ExploreRequest {
    unsigned threads = 2;
    unsigned bound = 2;      // preemptions, at most
    double seconds = 0;      // after which the search is given up; 0: never
};

struct ExploreResult {
    Sweep sweep;                 // the last bound's; runs: of all
    std::uint32_t shared = 0;    // words that several threads access, one at least not only reading
    double seconds = 0;
    std::optional<unsigned> bound_reached;  // the last one of which all schedules were run and held
    bool complete = false;       // all schedules within the bound were run, or one failed
};

// One a process. Ends it, with a line that says why, where the allocator's memory cannot be had.
class Explorer {
  public:
    Explorer();
    ~Explorer();
    Explorer(const Explorer &) = delete;
    Explorer &operator=(const Explorer &) = delete;

    ExploreResult explore(const ExploreScenario &scenario, const ExploreRequest &request);

    // One schedule. diverged: it is none of this scenario's.
    const Outcome &replay(const ExploreScenario &scenario, unsigned threads, const Schedule &schedule, bool &diverged);

    // The last run, one line an access; all: with those to words of one thread alone.
    std::string interleaving(bool all) const;

    Runner &runner() { return runner_; }

  private:
    void prepare(const ExploreScenario &scenario, unsigned threads);
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

}  // namespace stress
