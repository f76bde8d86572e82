#include "engine/run/memory_judge.h"

#include <time.h>

#include <algorithm>

#include "engine/base/build.h"
#include "engine/base/clock.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/subject.h"

namespace stress {

// The threads of the lap are joined: their caches are flushed, and their stacks returned to the system.
void MemoryJudge::rest()
{
    const MemorySample now = testbed_.meter.sample();
    if (testbed_.options.check) testbed_.meter.sample_mappings();
    rests_[rest_count_++] = {now.rss_bytes, now.live_bytes, testbed_.meter.peak_live_bytes(),
                             testbed_.meter.peak_rss_bytes()};
}

void MemoryJudge::judge_plateau(Result &result)
{
    PlateauGrowth growth = plateau_growth(&rests_[0], rest_count_, testbed_.options.threads);
    growth.slack_bytes += swing_bytes_;
    result.plateau_growth_bytes = growth.grown_bytes;
    if (!growth.judged) result.not_judged = "plateau: --laps " + std::to_string(kPlateauRestsMin) + " or more show it";
    if (growth.holds() || comes_back(growth)) return;
    const RestSample &last = rests_[rest_count_ - 1];
    testbed_.failures.add(
        rule::kPlateau, testbed_.witness(),
        "resident bytes beyond live ones grew by %llu from the first third of %zu laps to the last third, "
        "and %llu are allowed; at the end %llu were resident for %llu live, and did not come back in %.0f s",
        static_cast<unsigned long long>(growth.grown_bytes), rest_count_,
        static_cast<unsigned long long>(growth.slack_bytes), static_cast<unsigned long long>(last.rss_bytes),
        static_cast<unsigned long long>(last.live_bytes), testbed_.options.return_seconds);
}

// Waits until that is so, for as long as memory may take to return.
bool MemoryJudge::comes_back(const PlateauGrowth &growth)
{
    const std::uint64_t start_ns = clock_ns();
    while (static_cast<double>(clock_ns() - start_ns) / 1e9 < testbed_.options.return_seconds) {
        const MemorySample now = testbed_.meter.sample();
        if (growth.came_back(now.rss_bytes > now.live_bytes ? now.rss_bytes - now.live_bytes : 0)) return true;
        pause();
    }
    return false;
}

void MemoryJudge::judge_mappings(const Result &result)
{
    std::uint64_t bound = mapping_bound_count(first_mapping_count_, result.peak_live_bytes, testbed_.options.threads,
                                              mapping_limit_count());
    // The seeded scheduler joins threads only at the end of a lap; until then each keeps its stack and guard.
    if (testbed_.options.schedule == Schedule::Seeded) bound += 2 * testbed_.sum(&Counters::threads_started);
    if (result.vma_count_peak <= bound) return;
    testbed_.failures.add(
        rule::kMappings, testbed_.witness(),
        "the process had %llu mappings, %llu at first, for at most %llu live bytes; the bound is %llu",
        static_cast<unsigned long long>(result.vma_count_peak), static_cast<unsigned long long>(first_mapping_count_),
        static_cast<unsigned long long>(result.peak_live_bytes), static_cast<unsigned long long>(bound));
}

// Sleeps for 10 ms, then makes a few calls, so that a malloc without a background thread notices that time passes.
void MemoryJudge::pause()
{
    const timespec length{0, 10'000'000};
    nanosleep(&length, nullptr);
    for (std::size_t size_bytes : {std::size_t{64}, std::size_t{2} << 10, std::size_t{64} << 10}) {
        void *start = subject::call_malloc(size_bytes);
        if (start != nullptr) *static_cast<volatile unsigned char *>(start) = 1;
        subject::call_free(start);
    }
    bump(testbed_.seats[0]->counters.ops, 1);  // for the watchdog
}

// Everything is freed, so memory must return to the system within the deadline. Waits only while more than the bound is
// resident and, if the rule does not apply, no longer than the run itself took.
void MemoryJudge::await_return(Result &result, double run_seconds)
{
    const std::uint64_t bound = memory_return_bound_bytes(result.peak_rss_bytes, testbed_.options.threads);
    const double seconds_max = testbed_.options.strict ? testbed_.options.return_seconds
                                                       : std::min(testbed_.options.return_seconds, run_seconds);
    const std::uint64_t start_ns = clock_ns();
    result.returned_rss_bytes = result.end_rss_bytes;
    while (result.returned_rss_bytes > bound && result.return_seconds < seconds_max) {
        pause();
        result.returned_rss_bytes = testbed_.meter.sample().rss_bytes;
        result.return_seconds = static_cast<double>(clock_ns() - start_ns) / 1e9;
    }
    if (!testbed_.options.strict || result.returned_rss_bytes <= bound) return;
    testbed_.failures.add(
        rule::kMemoryReturn, testbed_.witness(),
        "%llu bytes were still resident %.1f s after everything was freed; the peak was %llu, the bound "
        "is %llu",
        static_cast<unsigned long long>(result.returned_rss_bytes), result.return_seconds,
        static_cast<unsigned long long>(result.peak_rss_bytes), static_cast<unsigned long long>(bound));
}

void MemoryJudge::judge_resident(Result &result)
{
    const std::uint64_t unreturned_bytes = fault_os_unreturned_bytes();
    result.memory_bound_bytes = memory_bound_bytes(result.peak_live_bytes, testbed_.options.threads) + unreturned_bytes;
    const std::uint64_t most = std::max(result.peak_rss_bytes, result.end_rss_bytes);
    if (most <= result.memory_bound_bytes) return;
    testbed_.failures.add(
        rule::kMemoryBound, testbed_.witness(),
        "%llu bytes were resident for at most %llu live bytes; the bound is %llu, with %llu that "
        "munmap and madvise refused to take",
        static_cast<unsigned long long>(most), static_cast<unsigned long long>(result.peak_live_bytes),
        static_cast<unsigned long long>(result.memory_bound_bytes), static_cast<unsigned long long>(unreturned_bytes));
}

void MemoryJudge::judge(Result &result, double run_seconds)
{
    if (kSanitized) { // shadow memory and quarantine do not belong to the subject
        result.not_judged = "memory, and getline beside fork: a sanitizer's own malloc is in them";
        return;
    }
    if (kEmulated) {
        result.not_judged = "memory: the emulator's own is in it";
        return;
    }
    if (result.process.os_failures != 0) { // memory that the system refused to take back stays resident
        result.not_judged = "plateau, mappings and memory return: munmap and madvise were made to fail";
        judge_resident(result);
        return;
    }
    judge_plateau(result);
    judge_mappings(result);
    judge_resident(result);
    if (testbed_.options.repeat > 1) { // the subject is asked to give it back
        result.not_judged = "memory return: the run is repeated";
        return;
    }
    if (!testbed_.failed()) await_return(result, run_seconds); // after a failure the wait is not worth it
}

} // namespace stress
