// Choosers: who decides, at each point of a run, which thread goes on. Search enumerates; Replay repeats.
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

    // The running thread stands before an access and could go on; so could the `others`. `is_choice` is false where it
    // makes no difference who does (runner.h). Returns who goes on.
    virtual unsigned at_point(unsigned running, unsigned others, bool is_choice) = 0;

    // Nobody runs: at the beginning, where a thread has ended, where it waits for a lock. One of `candidates`.
    virtual unsigned at_rest(unsigned candidates) = 0;
};

// All schedules with at most `bound` preemptions (a switch away from a thread that could go on), depth first: those
// that differ in the last choice follow one another. Between two runs: next().
class Search : public Chooser {
  public:
    explicit Search(unsigned bound) : bound_(bound) {}

    unsigned at_point(unsigned running, unsigned others, bool is_choice) override;
    unsigned at_rest(unsigned candidates) override;

    // To the next schedule. False: that was the last one.
    bool next();

    // Whether a run came to other choices than the one before it with the same choices made: then it does not repeat.
    bool diverged() const { return diverged_; }
    // Of the run so far.
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

// The schedule as it stands; behind its end each thread to its end, in order.
class Replay : public Chooser {
  public:
    explicit Replay(const Schedule &schedule) : schedule_(schedule) {}

    unsigned at_point(unsigned running, unsigned others, bool is_choice) override;
    unsigned at_rest(unsigned candidates) override;

    // Whether the run was another one than the schedule tells of.
    bool diverged() const { return diverged_ || at_ + 1 < schedule_.size(); }

  private:
    const Schedule &schedule_;
    std::size_t at_ = 0;
    std::uint32_t points_ = 0; // of this stretch that were passed
    bool begun_ = false;
    bool diverged_ = false;
};

} // namespace stress
