// Choosers: every run within bounds, one at random, or one that was written down.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

#include "order/model/choice.h"
#include "order/model/clock.h"

namespace stress::order {

constexpr unsigned kUnbounded = std::numeric_limits<unsigned>::max();

struct Bounds {
    unsigned preemptions = kUnbounded;
    unsigned stale = kUnbounded; // loads that read, and stores that go, before the end of modification order
};

class Chooser : public Choices {
  public:
    explicit Chooser(Bounds bounds) : bounds_(bounds) {}

    unsigned choose(Choice kind, unsigned count, bool is_free) final;
    // Chooses a thread among these; the first is the running one, unless it cannot continue (is_free).
    unsigned choose_thread(const unsigned *candidates, unsigned count, bool is_free);
    // Called where a thread may be chosen. True: nothing can follow that other runs did not show.
    virtual bool is_known(std::uint64_t digest, unsigned running) = 0;
    // The running thread's next step is about this; it has not been chosen yet.
    virtual void is_about_to(Event, std::uintptr_t, bool) {}
    // It makes the step. `before`: what happens before it.
    virtual void does(Event, std::uintptr_t, bool, const Clock &) {}

    // What was chosen in this run, in order.
    const std::vector<unsigned> &chosen() const { return chosen_; }

  protected:
    void begin();
    virtual unsigned decide(Choice kind, unsigned count) = 0;
    virtual unsigned decide_thread(const unsigned *, unsigned count, bool) { return decide(Choice::thread, count); }
    Bounds left_;
    const Bounds &bounds() const { return bounds_; }

  private:
    Bounds bounds_;
    std::vector<unsigned> chosen_;
};

// Depth first. Call next() between two runs. If it prunes, it leaves out runs that show nothing new:
//
// - A state that was reached before, by its digest of 64 bits, with as much left of the bounds, is not entered again: all its
//   runs have been, or will be, taken from there.
// - A thread is preempted before a step only if, in some run in which it continued, another thread makes a conflicting step
//   that does not happen after the first. README.md says why that is enough.
class Search final : public Chooser {
  public:
    Search(Bounds bounds, bool prunes) : Chooser(bounds), prunes_(prunes) { begin(); }

    bool is_known(std::uint64_t digest, unsigned running) override;
    void does(Event event, std::uintptr_t key, bool is_write, const Clock &before) override;
    void is_about_to(Event event, std::uintptr_t, bool) override { about_ = event; }
    // Moves to the next run; false: that was the last one.
    bool next();

    std::size_t states() const { return known_.size(); }
    // Whether a run met other choices than the one before it, after the same ones: then runs do not repeat.
    bool has_diverged() const { return has_diverged_; }

  private:
    using Set = std::vector<std::uint64_t>; // of steps, a bit each, by number_of()
    struct Step {
        Event event;
        bool is_write = false;
    };
    struct Node {
        unsigned count, choice;
        bool is_preemption = false; // the first alternative is to continue with this step
        Event event;
        // Steps that a later one of another thread conflicts with, and does not happen after, in a run from here on.
        Set below;
        std::vector<std::uint64_t> states; // that were met behind it and before the next node
    };
    struct Known {
        unsigned left = 0; // the most preemptions that were left in it
        bool is_open = false; // its runs are not all made: the set is that of a node of the path
        std::uint32_t steps = 0; // which node (0: none, the root), or which of sets_
    };
    unsigned decide(Choice, unsigned count) override { return decide_at(count, false); }
    unsigned decide_thread(const unsigned *, unsigned count, bool is_free) override
    {
        return decide_at(count, !is_free);
    }
    unsigned decide_at(unsigned count, bool is_preemption);
    unsigned number_of(Event event);
    bool conflicts(const Node &node);
    Set &top() { return depth_ == 0 ? root_ : path_[depth_ - 1].below; }
    static void add(Set &to, const Set &from);
    void close(const Node &node);

    bool prunes_;
    std::vector<Node> path_;
    Set root_;
    Event about_;
    std::unordered_map<std::uintptr_t, std::vector<Step>> done_; // in this run, by granule
    bool has_diverged_ = false;
    std::size_t depth_ = 0;
    std::unordered_map<std::uint64_t, Known> known_;
    std::vector<Set> sets_;
    std::map<Set, std::uint32_t> set_numbers_;
    std::unordered_map<std::uint64_t, unsigned> numbers_;
};

// Another thread with probability 1/8 at each point, and another store than the last with probability 1/4.
class Uniform final : public Chooser {
  public:
    Uniform(Bounds bounds, std::uint64_t seed) : Chooser(bounds), random_(seed) { begin(); }

    bool is_known(std::uint64_t, unsigned) override { return false; }

  private:
    unsigned decide(Choice kind, unsigned count) override;

    std::mt19937_64 random_;
};

// PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010): the thread with the highest priority runs. At `depth` - 1
// random points out of `points` the running thread gets the lowest one. Stale reads are as in Uniform.
class Pct final : public Chooser {
  public:
    Pct(Bounds bounds, std::uint64_t seed, unsigned depth, std::uint64_t points);

    bool is_known(std::uint64_t, unsigned) override { return false; }

  private:
    unsigned decide(Choice kind, unsigned count) override;
    unsigned decide_thread(const unsigned *candidates, unsigned count, bool is_free) override;

    std::mt19937_64 random_;
    std::vector<std::uint64_t> changes_;
    std::uint64_t point_ = 0, lowest_ = 0;
    std::uint64_t priority_[kThreadsMax];
};

// POS (Yuan, Yang, Gu, CAV 2018): each step that is about to happen has a random priority, and the highest happens. Then steps
// of other threads that conflict with it get new ones. Stale reads are as in Uniform.
class Pos final : public Chooser {
  public:
    Pos(Bounds bounds, std::uint64_t seed);

    bool is_known(std::uint64_t, unsigned) override { return false; }
    void is_about_to(Event event, std::uintptr_t key, bool is_write) override;

  private:
    unsigned decide(Choice kind, unsigned count) override;
    unsigned decide_thread(const unsigned *candidates, unsigned count, bool is_free) override;

    struct Pending {
        std::uint64_t priority = 0;
        std::uintptr_t key = 0;
        bool is_write = false;
    };
    std::mt19937_64 random_;
    Pending pending_[kThreadsMax];
};

// How often each thread makes a step about each word, in one run.
using StepCounts = std::unordered_map<std::uintptr_t, std::array<std::uint32_t, kThreadsMax>>;

// SURW (Zhao, Wolff, Mathur, Roychoudhury, ASPLOS 2025): chooses a word that several threads use, and draws all orders of the
// steps about it with equal probability, by the number of steps that each thread still has. Between those the threads run
// at random. Stale reads are as in Uniform.
class Surw final : public Chooser {
  public:
    Surw(Bounds bounds, std::uint64_t seed, const StepCounts &counts);

    bool is_known(std::uint64_t, unsigned) override { return false; }
    void is_about_to(Event event, std::uintptr_t key, bool) override { about_[event.thread] = key; }

  private:
    unsigned decide(Choice kind, unsigned count) override;
    unsigned decide_thread(const unsigned *candidates, unsigned count, bool is_free) override;
    void intend();

    std::mt19937_64 random_;
    std::uintptr_t word_ = 0, about_[kThreadsMax] = {};
    std::array<std::uint32_t, kThreadsMax> left_of_{};
    unsigned intended_ = 0;
};

// What another chooser chose; behind its end, the first alternative.
class Replay final : public Chooser {
  public:
    explicit Replay(std::vector<unsigned> chosen) : Chooser({}), given_(std::move(chosen)) { begin(); }

    bool is_known(std::uint64_t, unsigned) override { return false; }
    void is_about_to(Event event, std::uintptr_t key, bool) override { ++counts_[key][event.thread]; }
    const StepCounts &counts() const { return counts_; }

  private:
    unsigned decide(Choice, unsigned count) override;

    std::vector<unsigned> given_;
    std::size_t depth_ = 0;
    StepCounts counts_;
};

} // namespace stress::order
