#include "engine/run/run.h"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "engine/base/build.h"
#include "engine/base/clock.h"
#include "engine/run/coverage.h"
#include "engine/run/crash_context.h"
#include "engine/seat/sched.h"
#include "engine/subject/whitebox.h"
#include "engine/team/worker.h"

namespace stress {

Run::Run(const Options &options, std::uint64_t seed, Support support, Plan &plan)
    : testbed_(options, support, plan), seed_(seed), injector_(testbed_, plan.injection),
      memory_(testbed_, plan.swing_bytes), claims_(options.check ? plan.claims : std::vector<Claim>{}),
      profile_judge_(plan.injection.refuses_memory() ? nullptr : plan.judge_profile),
      refuses_memory_(plan.injection.refuses_memory())
{
    const Support &has = support;
    // Without an entry of its own a subject gets malloc instead of an aligned call.
    if (!has.aligned_alloc && !has.posix_memalign && !has.memalign)
        std::erase_if(claims_, [](const Claim &claim) { return std::strcmp(claim.rule, rule::kAlignment) == 0; });
    const Injection &injection = plan.injection;
    // Handlers call the subject, so no thread that gets signals is asleep.
    if (injection.signal_us != 0)
        std::erase_if(claims_, [](const Claim &claim) { return std::strcmp(claim.rule, rule::kMemoryReturn) == 0; });
    worker_shared = {&testbed_.failures, &testbed_.shared, injection.signal_us, options.cancel_ops, seed};
    // Under the seeded scheduler, the scheduler uses the sync points; and a single thread meets no other.
    needs_.directs_forks = plan.directs_forks;
    needs_.traps_os = plan.traps_os;
    const bool parks = plan.directs_forks && options.schedule == Schedule::Os;
    process_ops_begin({parks, plan.traps_os || injection.traps_calls, options.watchdog_seconds,
                       injection.signals_restart, injection.signals_bare, options.threads,
                       injection.signal_us == 0 ? &testbed_.meter : nullptr},
                      testbed_.failures);
    if (options.schedule == Schedule::Seeded && options.threads == 1) needs_.directs_forks = false;
}

Run::~Run()
{
    process_ops_end(testbed_.seats);
}

namespace {

// Whether a thread of libhakmem's own may be changing the heap.
bool subject_has_own_thread()
{
    const char *asked = std::getenv("HAKMEM_BACKGROUND");
    return asked != nullptr && std::strcmp(asked, "0") != 0;
}

} // namespace

// Between two laps: no thread is in the subject.
void Run::check_books()
{
    if (testbed_.failed() || !testbed_.options.check || !whitebox_can_inspect() || subject_has_own_thread()) return;
    const std::string law = whitebox_broken_law();
    if (!law.empty()) testbed_.failures.add(rule::kLaw, testbed_.witness(), "%s", law.c_str());
}

void Run::judge_profile()
{
    if (testbed_.failed() || profile_judge_ == nullptr) return;
    const std::string fault =
        profile_judge_(testbed_.sum(&Counters::bytes_allocated), testbed_.sum(&Counters::bytes_freed));
    if (!fault.empty()) testbed_.failures.add(rule::kProfile, testbed_.witness(), "%s", fault.c_str());
    bump(testbed_.seats[0]->process.counts.profiles, 1);
}

// Frees what is left, but not after a failure: the heap is then left as it is.
void Run::sweep()
{
    Interp &interp = testbed_.seats[0]->interp;
    for (std::size_t slot = 0; slot < testbed_.slots.blocks.size(); ++slot)
        if (testbed_.failed() || !interp.sweep(static_cast<std::uint32_t>(slot))) return;
}

void Run::judge_balance()
{
    const std::uint64_t blocks_in = testbed_.sum(&Counters::blocks_allocated),
                        blocks_out = testbed_.sum(&Counters::blocks_freed),
                        bytes_in = testbed_.sum(&Counters::bytes_allocated),
                        bytes_out = testbed_.sum(&Counters::bytes_freed);
    if (blocks_in == blocks_out && bytes_in == bytes_out) return;
    testbed_.failures.add(rule::kBalance, testbed_.witness(),
                          "%llu blocks of %llu bytes were allocated, but %llu of %llu freed",
                          static_cast<unsigned long long>(blocks_in), static_cast<unsigned long long>(bytes_in),
                          static_cast<unsigned long long>(blocks_out), static_cast<unsigned long long>(bytes_out));
}

// A rule that the scenario is there for must have had a case. Memory that is refused may leave none.
void Run::judge_claims(const Result &result)
{
    if (refuses_memory_) return;
    const std::string missing = claim_without_case(result.rule_cases, claims_, testbed_.sum(&Counters::ops));
    if (!missing.empty()) testbed_.failures.add(rule::kProvesNothing, testbed_.witness(), "%s", missing.c_str());
}

void Run::fill_in_peaks(Result &result) const
{
    result.start_rss_bytes = start_rss_bytes_;
    result.peak_live_bytes = testbed_.meter.peak_live_bytes();
    result.vma_count_peak = testbed_.meter.peak_mapping_count();
    result.peak_rss_bytes = testbed_.meter.peak_rss_bytes();
    if (!testbed_.options.touch_pages || testbed_.options.check) return;
    // Samples would miss the peak of a short replay. Without checks the harness takes no memory while it runs.
    const std::uint64_t peak = process_peak_resident_bytes(), own = harness_resident_bytes();
    if (peak > own + result.peak_rss_bytes) result.peak_rss_bytes = peak - own;
}

// What the ops and their sweep did, without the probes at the end.
void Run::fill_in_blocks(Result &result) const
{
    result.blocks_allocated = testbed_.sum(&Counters::blocks_allocated);
    result.bytes_allocated = testbed_.sum(&Counters::bytes_allocated);
    result.blocks_freed = testbed_.sum(&Counters::blocks_freed);
}

void Run::fill_in(Result &result) const
{
    const Options &options = testbed_.options;
    result.allocator = options.allocator;
    result.check = options.check;
    result.strict = options.strict;
    result.seeded = options.schedule == Schedule::Seeded;
    result.seed = seed_;
    result.threads = options.threads;
    result.threads_started = testbed_.sum(&Counters::threads_started);
    result.refused = testbed_.sum(&Counters::refused);
    if (options.latency) {
        Latency sum;
        for (const Seat *seat : testbed_.seats) sum.merge(*seat->interp.latency);
        result.latency = latency_figures(sum);
    }
    if (testbed_.lines != nullptr) result.false_shared_lines = testbed_.lines->shared_count();
    for (const Claim &claim : claims_) result.claims.push_back(claim.rule);
    for (std::size_t i = 0; i < testbed_.failures.size(); ++i)
        result.failures.push_back({testbed_.failures[i].rule, testbed_.failures[i].detail});
    if (const Failure *noted = testbed_.failures.noted(); noted != nullptr)
        result.failures.push_back({noted->rule, noted->detail});
}

Result Run::so_far(const std::string &scenario, const std::string &reproduce) const
{
    Result result;
    result.scenario = scenario;
    result.reproduce = reproduce;
    fill_in_peaks(result);
    fill_in_blocks(result);
    fill_in(result);
    result.ops = testbed_.sum(&Counters::ops);
    result.seconds = static_cast<double>(clock_ns() - start_ns_) / 1e9;
    return result;
}

void Run::run_laps(Result &result)
{
    const Options &options = testbed_.options;
    std::optional<Sched> sched;
    if (options.schedule == Schedule::Seeded) {
        sched.emplace(seed_, testbed_.stop);
        whitebox_attach(sched_subject_step, sched_subject_ms);
        crash_context_schedule(sched->clock_word(), sched->hash_word());
    }
    injector_.begin();
    for (std::uint32_t number = 0; number < options.laps && !testbed_.failed(); ++number) {
        laps_.run(number);
        if (testbed_.lines != nullptr) testbed_.lines->disown();
        memory_.rest();
        check_books();
        judge_profile();
    }
    if (!sched.has_value()) return;
    whitebox_detach();
    crash_context_schedule(nullptr, nullptr);
    result.schedule_hash = sched->hash();
    result.logical_clock = sched->clock();
}

// What can only be judged at the end.
void Run::judge(Result &result)
{
    for (const Seat *seat : testbed_.seats) result.process.add(seat->process.counts);
    if (!testbed_.failed()) process_ops_judge(result.process, needs_, testbed_.witness(), testbed_.failures);

    result.process.add(injector_.figures());
    result.end_rss_bytes = testbed_.meter.sample().rss_bytes;
    result.returned_rss_bytes = result.end_rss_bytes;
    fill_in_peaks(result);
    if (!testbed_.options.check) return;
    result.op_counts = op_counts(testbed_);
    result.rule_cases = rule_cases(testbed_, result.process, claims_);
    if (testbed_.failed()) return;
    judge_balance();
    judge_claims(result);
    memory_.judge(result, laps_.seconds());
    // Sanitizers end the process when asked for a size that cannot exist.
    if (testbed_.options.strict && (kDirect || !kSanitized) && !testbed_.failed())
        testbed_.seats[0]->interp.probe_impossible();
}

Result Run::run(const std::string &scenario, const std::string &reproduce)
{
    Result result;
    result.scenario = scenario;
    result.reproduce = reproduce;
    start_ns_ = clock_ns();
    memory_.begin();
    process_peak_begin();
    start_rss_bytes_ = testbed_.meter.sample().rss_bytes;
    run_laps(result);
    sweep();
    fill_in_blocks(result);
    injector_.end();
    check_books();
    judge(result);
    if (testbed_.options.check && whitebox_can_inspect() && subject_has_own_thread())
        result.not_judged += std::string(result.not_judged.empty() ? "" : "; ") +
                             "law: HAKMEM_BACKGROUND's thread may be changing the heap";
    result.ops = laps_.ops();
    result.seconds = laps_.seconds();
    fill_in(result);
    return result;
}

} // namespace stress
