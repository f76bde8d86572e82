// The threads of a row, started together, and the time that they take.
#pragma once

#include <barrier>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/row.h"

namespace bench {

class Team;

// What the process has used, and the processes that it started and waited for.
struct Usage {
    std::int64_t faults = 0; // page faults that needed no disk
    std::int64_t cpu_ns = 0;
};

// A worker's place. Its work calls start() once, after its warm-up, and finish() once, when its timed part is over.
// Another thread than the one that took the seat may call them.
class Seat {
  public:
    Seat(Team &team, std::uint32_t number) : index(number), team_(team) {}

    void start();  // waits for the whole team, unless the seats take turns
    void finish();

    // Lets the other seats run, each until it calls this or ends, and returns when it is this seat's turn again. False:
    // the seats take no turns, and nothing was done.
    bool turn();

    const std::uint32_t index;

  private:
    friend class Team;
    Team &team_;
    std::int64_t started_ns_ = 0, finished_ns_ = 0;
    Usage started_, finished_;
};

// Of the timed part of the last run.
Usage timed_usage();

// Says whose turn it is. The one that has it passes it on.
class Turns {
  public:
    explicit Turns(std::uint32_t seats) : here_(seats, true) {}

    void begin(std::uint32_t seat); // when all seats are there
    void wait(std::uint32_t seat);
    void pass(std::uint32_t seat);
    void leave(std::uint32_t seat); // for good
    void end(std::uint32_t seat); // lets wait_end(seat) return, once all have left
    void wait_end(std::uint32_t seat);

  private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<bool> here_;
    std::uint32_t now_ = UINT32_MAX, ending_ = UINT32_MAX;
};

class Team {
  public:
    explicit Team(std::uint32_t threads, bool takes_turns = false);

    // Runs the work in each seat, and returns the seconds from the first start to the last finish. A team of one uses
    // the calling thread, because mallocs treat a single-threaded program specially.
    double run(const std::function<void(Seat &)> &work);

  private:
    friend class Seat;
    void end_in_order(std::vector<std::jthread> &threads);

    std::vector<Seat> seats_;
    std::barrier<> start_;
    const bool takes_turns_;
    Turns turns_;
};

// A row without shared state: makes a `Loop` from the plan and the thread's number; its go(pairs) does the work.
template <typename Loop> double run_apart(const Plan &plan)
{
    return Team(plan.threads).run([&](Seat &seat) {
        Loop loop(plan, seat.index);
        loop.go(Plan::share(plan.warm_ops, seat.index, plan.threads));
        seat.start();
        loop.go(Plan::share(plan.ops, seat.index, plan.threads));
        seat.finish();
    });
}

} // namespace bench
