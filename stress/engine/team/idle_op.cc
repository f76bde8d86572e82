#include "engine/team/idle_op.h"

#include <time.h>

#include "engine/base/clock.h"
#include "engine/judge/memory_law.h"

namespace stress {
namespace {

constexpr std::uint64_t kComeMs = 5000; // a seat that has no ops left does not come, nor one whose lap has ended

std::size_t seats;
MemoryMeter *meter;
std::atomic<std::size_t> come{0};
std::atomic<std::uint64_t> rounds{0}; // that have ended

std::uint64_t now_ms()
{
    return clock_ns() / 1'000'000;
}

void pause_ms(long ms)
{
    const timespec pause{0, ms * 1'000'000};
    nanosleep(&pause, nullptr);
}

bool judge(std::uint64_t ms_max, Seat &seat, FailureLog &failures)
{
    const std::uint64_t start = now_ms();
    for (;;) {
        const MemorySample sample = meter->sample();
        const std::uint64_t bound = idle_bound_bytes(sample.live_bytes, seats), passed = now_ms() - start;
        if (sample.rss_bytes <= bound) {
            bump(seat.process.counts.idles, 1);
            return true;
        }
        // The end of a lap does not cut it short: a run of half a second would then judge nothing that takes longer.
        if (failures.any()) return true;
        if (passed >= ms_max) {
            failures.add(
                rule::kMemoryReturn, seat.interp.witness(),
                "%llu bytes were still resident for %llu live ones %.1f s after all threads went to sleep; the "
                "bound is %llu",
                static_cast<unsigned long long>(sample.rss_bytes), static_cast<unsigned long long>(sample.live_bytes),
                static_cast<double>(passed) / 1000, static_cast<unsigned long long>(bound));
            return false;
        }
        pause_ms(10);
    }
}

} // namespace

void idle_op_begin(std::size_t seat_count, MemoryMeter *of_run)
{
    seats = seat_count;
    meter = of_run;
    come.store(0, std::memory_order_relaxed);
}

bool idle_apply(std::uint64_t ms_max, Seat &seat, FailureLog &failures, const std::atomic<bool> &stop)
{
    if (meter == nullptr) return true;
    const SchedHold hold;
    const std::uint64_t round = rounds.load(), start = now_ms();
    bool sound = true;
    if (come.fetch_add(1) + 1 == seats) {
        sound = judge(ms_max, seat, failures);
        come.store(0);
        rounds.fetch_add(1);
        return sound;
    }
    while (rounds.load() == round) {
        pause_ms(5);
        std::size_t count = come.load();
        if (count == seats || (!stop.load(std::memory_order_relaxed) && now_ms() - start <= kComeMs)) continue;
        if (count == 0 || come.compare_exchange_strong(count, count - 1)) return true; // the others do not come
    }
    return true;
}

} // namespace stress
