#include "engine/run.h"

#include <algorithm>
#include <new>

#include "engine/build.h"
#include "engine/team.h"

namespace stress {

Run::Run(const Options &run_options, std::uint64_t seed, Support support)
    : options(run_options), seats_(run_options.threads)
{
    for (std::uint32_t i = 0; i < seats_.size(); ++i)
        seats_[i] = new (harness_map(sizeof(Seat))) Seat(i, seed, oracle_, support, options.check, stop_);
}

Run::~Run()
{
    for (Seat *seat : seats_) {
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

void Run::phase_begin(double share, std::size_t worker_count)
{
    const auto phase_ops = static_cast<std::uint64_t>(static_cast<double>(options.ops) * share);
    for (std::size_t i = 0; i < seats_.size(); ++i) {
        const std::uint64_t quota = phase_ops / worker_count + (i < phase_ops % worker_count ? 1 : 0);
        seats_[i]->ops_limit = options.ops == 0 ? UINT64_MAX : read(seats_[i]->counters.ops) + quota;
    }
    stop_.store(failed(), std::memory_order_relaxed);
    meter_.sample();
    phase_start_ops_ = ops_total();
    phase_start_ns_ = clock_ns();
    deadline_ns_ = options.seconds == 0
                       ? UINT64_MAX
                       : phase_start_ns_ + static_cast<std::uint64_t>(options.seconds * share * 1e9);
}

void Run::start(Seat &seat, Seat::Body body, void *argument)
{
    team_start(seat, body, argument, failures_);
}

void Run::phase_end()
{
    team_wait(seats_, deadline_ns_, stop_);
    measured_seconds_ += static_cast<double>(clock_ns() - phase_start_ns_) / 1e9;
    measured_ops_ += ops_total() - phase_start_ops_;
    meter_.sample();
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

void Run::judge_memory(Result &result)
{
    if (kSanitized) return;  // shadow memory and quarantine are not the subject's
    result.memory_bound_bytes = memory_bound_bytes(result.peak_live_bytes, options.threads);
    const std::uint64_t most = std::max(result.peak_rss_bytes, result.end_rss_bytes);
    if (most <= result.memory_bound_bytes) return;
    failures_.add(rule::kMemoryBound, seats_[0]->interp.witness(),
                  "%llu bytes were resident for at most %llu live bytes; the bound is %llu",
                  static_cast<unsigned long long>(most), static_cast<unsigned long long>(result.peak_live_bytes),
                  static_cast<unsigned long long>(result.memory_bound_bytes));
}

Result Run::run(const Scenario &scenario, std::uint64_t seed, const std::string &reproduce)
{
    scenario.run(*this);

    Result result;
    result.end_rss_bytes = meter_.sample().rss_bytes;
    result.peak_rss_bytes = meter_.peak_rss_bytes();
    result.peak_live_bytes = meter_.peak_live_bytes();
    if (options.check && !failed()) {
        judge_balance();
        judge_memory(result);
        // Sanitizers end the process on a size that cannot exist.
        if (options.strict && (kDirect || !kSanitized) && !failed()) seats_[0]->interp.probe_impossible();
    }
    result.scenario = scenario.name;
    result.allocator = options.allocator;
    result.check = options.check;
    result.seed = seed;
    result.threads = options.threads;
    for (const Seat *seat : seats_) result.threads_started += read(seat->counters.threads_started);
    result.ops = measured_ops_;
    result.seconds = measured_seconds_;
    result.reproduce = reproduce;
    for (std::size_t i = 0; i < failures_.size(); ++i)
        result.failures.push_back({failures_[i].rule, failures_[i].detail});
    return result;
}

}  // namespace stress
