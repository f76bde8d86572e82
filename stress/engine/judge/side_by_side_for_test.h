// Two threads that run side by side, so that a step which is not atomic is seen to lose something.
#pragma once

#include <atomic>
#include <chrono>
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

// Calls step(0, round) in this thread and step(1, round) in another, as nearly at once as two threads that spin can, for
// each of these rounds. Returns in how many both were in their step.
template <typename Step> int at_once(int rounds, Step step)
{
    std::atomic<int> arrived{0}, inside{0}, met{0};
    const auto body = [&](int me) {
        for (int round = 0; round < rounds; ++round) {
            arrived.fetch_add(1);
            for (int spins = 0; arrived.load() < 2 * (round + 1); ++spins)
                if (spins % 1024 == 1023) std::this_thread::yield();
            if (inside.fetch_add(1) != 0) met.fetch_add(1);
            step(me, round);
            inside.fetch_sub(1);
        }
    };
    std::thread other(body, 1);
    body(0);
    other.join();
    return met.load();
}

} // namespace stress
