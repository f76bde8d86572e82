// Two threads that run side by side, so that a step which is not atomic is seen to lose something.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <latch>
#include <thread>

namespace stress {

// With fewer meetings nothing was tried: the test is to skip, and to say so.
inline constexpr int kMeetingsLeast = 100;

// Calls step(0) in this thread and step(1) in another until they have met often: one sees that the other was here since
// its own last turn. On a machine that is too busy for that it ends after some seconds. Returns how often they met.
template <typename Step> int side_by_side(Step step)
{
    constexpr int meetings_wanted = 20'000;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    std::atomic<int> meetings{0}, last{0};
    std::latch begin(2);
    const auto body = [&](int me) {
        begin.arrive_and_wait();
        while (meetings.load(std::memory_order_relaxed) < meetings_wanted && std::chrono::steady_clock::now() < end)
            for (int i = 0; i < 64; ++i) {
                step(me);
                if (i % 8 == 0 && last.exchange(me, std::memory_order_relaxed) != me)
                    meetings.fetch_add(1, std::memory_order_relaxed);
            }
    };
    std::thread other(body, 1);
    body(0);
    other.join();
    return meetings.load();
}

// How many rounds there were, and in how many of them both threads were in their step.
struct AtOnce {
    int rounds, met;
};

// Calls step(0, round) in this thread and step(1, round) in another, as nearly at once as two threads that spin can, until
// they have met `wanted` times. On a machine that is too busy for that it ends after `rounds_max`, or some seconds.
template <typename Step> AtOnce at_once(int wanted, int rounds_max, Step step)
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    std::atomic<int> arrived{0}, inside{0}, met{0};
    std::atomic<int> rounds{INT_MAX}; // how many are done
    const auto body = [&](int me) {
        for (int round = 0;; ++round) {
            if (me == 0 && (round == rounds_max || met >= wanted || std::chrono::steady_clock::now() > end))
                rounds = round;
            arrived.fetch_add(1);
            for (int spins = 1; arrived.load() < 2 * (round + 1); ++spins)
                if (spins % (1 << 16) == 0) std::this_thread::yield();
            if (round == rounds) return;
            if (inside.fetch_add(1) != 0) met.fetch_add(1);
            step(me, round);
            inside.fetch_sub(1);
        }
    };
    std::thread other(body, 1);
    body(0);
    other.join();
    return {rounds.load(), met.load()};
}

} // namespace stress
