#include "engine/run/run.h"

#include <new>
#include <optional>

#include "engine/base/build.h"
#include "engine/base/clock.h"
#include "engine/run/crash_context.h"
#include "engine/seat/sched.h"
#include "engine/subject/fault_os.h"
#include "engine/subject/whitebox.h"
#include "engine/team/process_ops.h"
#include "engine/team/team.h"
#include "engine/team/worker.h"

namespace stress {

Run::Run(const Options &run_options, std::uint64_t seed, Support support, Plan &plan)
    : options_(run_options), seed_(seed), swing_bytes_(plan.swing_bytes), slots_(plan.slot_count),
      seats_(run_options.threads), counters_(run_options.threads), injection_(plan.injection), rests_(run_options.laps)
{
    for (std::uint32_t i = 0; i < seats_.size(); ++i) {
        seats_[i] = new (harness_map(sizeof(Seat))) Seat(i, shared_, support, options_.check);
        counters_[i] = &seats_[i]->counters;
        seats_[i]->generator = plan.generators[i].get();
        if (options_.latency) seats_[i]->interp.latency = new (harness_map(sizeof(Latency))) Latency();
    }
    if (plan.judge_lines && options_.check) {
        lines_ = std::make_unique<LineMap>();
        oracle_.watch_lines(lines_.get(), options_.strict);
    }
    worker_shared = {&failures_, &shared_, injection_.signal_us};
    // Under the seeded scheduler, the scheduler uses the sync points; and a single thread meets no other.
    needs_.directs_forks = plan.directs_forks;
    needs_.traps_os = plan.traps_os;
    const bool parks = plan.directs_forks && options_.schedule == Schedule::Os;
    process_ops_begin({parks, plan.traps_os || injection_.traps_calls, options_.watchdog_seconds,
                       injection_.signals_restart, injection_.signals_bare},
                      failures_);
    if (options_.schedule == Schedule::Seeded && options_.threads == 1) needs_.directs_forks = false;
}

Run::~Run()
{
    process_ops_end(seats_);
    for (Seat *seat : seats_) {
        if (seat->interp.latency != nullptr) harness_unmap(seat->interp.latency, sizeof(Latency));
        seat->~Seat();
        harness_unmap(seat, sizeof(Seat));
    }
}

std::uint64_t Run::ops_total() const
{
    std::uint64_t ops = 0;
    for (const Seat *seat : seats_) ops += read(seat->counters.ops);
    return ops;
}

void Run::lap(std::uint32_t number, std::uint32_t count)
{
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        const std::uint64_t quota = options_.ops / seats_.size() + (i < options_.ops % seats_.size() ? 1 : 0);
        seats_[i]->ops_limit = options_.ops == 0 ? UINT64_MAX : quota * (number + 1) / count;
    }
    stop_.store(failed(), std::memory_order_relaxed);
    meter_.sample();
    const std::uint64_t start_ops = ops_total(), start_ns = clock_ns();
    const std::uint64_t deadline_ns =
        options_.seconds == 0 ? UINT64_MAX : start_ns + static_cast<std::uint64_t>(options_.seconds * 1e9 / count);
    for (std::size_t i = 0; i < seats_.size() && !failed(); ++i) team_start(*seats_[i], failures_);
    limit_begin();
    team_wait(seats_, slots_, deadline_ns, stop_);
    limit_end();
    measured_seconds_ += static_cast<double>(clock_ns() - start_ns) / 1e9;
    measured_ops_ += ops_total() - start_ops;
    meter_.sample();
    process_ops_rest(*seats_[0], failures_, shared_);
}

// Between two laps: no thread is in the subject.
void Run::rest()
{
    if (failed() || !options_.check || !whitebox_can_inspect()) return;
    const std::string law = whitebox_broken_law();
    if (!law.empty()) failures_.add(rule::kLaw, seats_[0]->interp.witness(), "%s", law.c_str());
}

// Frees what is left, but not after a failure: the heap is then left as it is.
void Run::sweep()
{
    for (std::size_t slot = 0; slot < slots_.blocks.size(); ++slot)
        if (failed() || !seats_[0]->interp.sweep(static_cast<std::uint32_t>(slot))) return;
}

void Run::judge_balance()
{
    std::uint64_t blocks_in = 0, blocks_out = 0, bytes_in = 0, bytes_out = 0;
    for (const Seat *seat : seats_) {
        blocks_in += read(seat->counters.blocks_allocated);
        blocks_out += read(seat->counters.blocks_freed);
        bytes_in += read(seat->counters.bytes_allocated);
        bytes_out += read(seat->counters.bytes_freed);
    }
    if (blocks_in == blocks_out && bytes_in == bytes_out) return;
    failures_.add(rule::kBalance, seats_[0]->interp.witness(),
                  "%llu blocks of %llu bytes were allocated, but %llu of %llu freed",
                  static_cast<unsigned long long>(blocks_in), static_cast<unsigned long long>(bytes_in),
                  static_cast<unsigned long long>(blocks_out), static_cast<unsigned long long>(bytes_out));
}

void Run::fill_in(Result &result) const
{
    result.allocator = options_.allocator;
    result.check = options_.check;
    result.strict = options_.strict;
    result.seed = seed_;
    result.threads = options_.threads;
    for (const Seat *seat : seats_) result.threads_started += read(seat->counters.threads_started);
    for (const Seat *seat : seats_) {
        result.blocks_allocated += read(seat->counters.blocks_allocated);
        result.blocks_freed += read(seat->counters.blocks_freed);
    }
    for (const Seat *seat : seats_) result.refused += read(seat->counters.refused);
    result.ops = measured_ops_;
    result.seconds = measured_seconds_;
    if (options_.latency) {
        Latency sum;
        for (const Seat *seat : seats_) sum.merge(*seat->interp.latency);
        result.latency = latency_figures(sum);
    }
    if (lines_ != nullptr) result.false_shared_lines = lines_->shared_count();
    for (std::size_t i = 0; i < failures_.size(); ++i)
        result.failures.push_back({failures_[i].rule, failures_[i].detail});
}

Result Run::so_far(const std::string &scenario, const std::string &reproduce) const
{
    Result result;
    result.scenario = scenario;
    result.reproduce = reproduce;
    result.seeded = options_.schedule == Schedule::Seeded;
    result.peak_rss_bytes = meter_.peak_rss_bytes();
    result.peak_live_bytes = meter_.peak_live_bytes();
    result.vma_count_peak = meter_.peak_mapping_count();
    fill_in(result);
    result.ops = ops_total();
    result.seconds = static_cast<double>(clock_ns() - start_ns_) / 1e9;
    return result;
}

Result Run::run(const std::string &scenario, const std::string &reproduce)
{
    Result result;
    start_ns_ = clock_ns();
    first_mapping_count_ = meter_.sample_mappings();
    std::optional<Sched> sched;
    if (options_.schedule == Schedule::Seeded) {
        sched.emplace(seed_, stop_);
        whitebox_attach(sched_subject_step, sched_subject_ms);
        crash_context_schedule(sched->clock_word(), sched->hash_word());
    }
    injection_begin();
    for (std::uint32_t number = 0; number < options_.laps && !failed(); ++number) {
        lap(number, options_.laps);
        if (lines_ != nullptr) lines_->disown();
        sample_rest(number);
        rest();
    }
    if (sched.has_value()) {
        whitebox_detach();
        crash_context_schedule(nullptr, nullptr);
        result.schedule_hash = sched->hash();
        result.logical_clock = sched->clock();
        sched.reset();
    }
    sweep();
    injection_end();
    rest();

    for (const Seat *seat : seats_) result.process.add(seat->process);
    if (!failed()) process_ops_judge(result.process, needs_, seats_[0]->interp.witness(), failures_);

    result.process.add(injected_);
    result.end_rss_bytes = meter_.sample().rss_bytes;
    result.peak_rss_bytes = meter_.peak_rss_bytes();
    result.peak_live_bytes = meter_.peak_live_bytes();
    result.vma_count_peak = meter_.peak_mapping_count();
    result.returned_rss_bytes = result.end_rss_bytes;
    if (options_.check && !failed()) {
        judge_balance();
        judge_memory(result);
        // Sanitizers end the process when asked for a size that cannot exist.
        if (options_.strict && (kDirect || !kSanitized) && !failed()) seats_[0]->interp.probe_impossible();
    }
    result.scenario = scenario;
    result.reproduce = reproduce;
    result.seeded = options_.schedule == Schedule::Seeded;
    fill_in(result);
    return result;
}

}  // namespace stress
