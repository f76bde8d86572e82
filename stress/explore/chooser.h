// Choosers decide at each point of a run which thread continues. Search enumerates schedules; Replay repeats one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "explore/schedule.h"

namespace stress {

// Threads are bits of a mask.
class Chooser {
  public:
    virtual ~Chooser() = default;

    // The running thread is about to make an access and could continue; so could the `others`. If `is_choice` is false,
    // it makes no difference which one does (runner.h). Returns the thread that continues.
    virtual unsigned at_point(unsigned running, unsigned others, bool is_choice) = 0;

    // No thread is running: at the beginning, after a thread has ended, or when it waits for a lock. Returns one of
    // `candidates`.
    virtual unsigned at_rest(unsigned candidates) = 0;
};

// All schedules with at most `bound` preemptions (a switch away from a thread that could continue), depth first, so
// that schedules that differ only in the last choice follow one another. Call next() between two runs.
class Search : public Chooser {
  public:
    explicit Search(unsigned bound) : bound_(bound) {}

    unsigned at_point(unsigned running, unsigned others, bool is_choice) override;
    unsigned at_rest(unsigned candidates) override;

    // Moves to the next schedule. False: that was the last one.
    bool next();

    // Whether a run, after the same choices as the previous run, met other choices: then runs do not repeat.
    bool diverged() const { return diverged_; }
    // Preemptions of the run so far.
    unsigned preemptions() const { return preemptions_; }

  private:
    struct Choice {
        std::uint8_t chosen, count;
    };

    unsigned pick(unsigned count);

    unsigned bound_;
    unsigned preemptions_ = 0;
    std::size_t depth_ = 0;
    bool diverged_ = false;
    std::vector<Choice> path_;
};

// Follows the schedule; after its end, runs each thread to its end, in order.
class Replay : public Chooser {
  public:
    explicit Replay(const Schedule &schedule) : schedule_(schedule) {}

    unsigned at_point(unsigned running, unsigned others, bool is_choice) override;
    unsigned at_rest(unsigned candidates) override;

    // Whether the run differed from what the schedule says.
    bool diverged() const { return diverged_ || at_ + 1 < schedule_.size(); }

  private:
    const Schedule &schedule_;
    std::size_t at_ = 0;
    std::uint32_t points_ = 0; // points of this stretch that were passed
    bool begun_ = false;
    bool diverged_ = false;
};

} // namespace stress
