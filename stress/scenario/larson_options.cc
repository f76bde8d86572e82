#include "scenario/larson_options.h"

#include <algorithm>

#include "engine/base/cli_numbers.h"
#include "scenario/scenarios.h"

namespace stress {

void LarsonOptions::add(CLI::App &app)
{
    app.add_option("--chunks", chunks, "blocks in the window of a thread (default 1000, fewer in short runs)")
        ->check(whole_number(1, kCountMax));
    app.add_option("--rounds", rounds,
                   "times that a thread replaces its window before a fresh one takes it (default 10)")
        ->check(whole_number(1, kCountMax));
    app.add_option("classic", classic_, "the classic arguments: seconds min-size max-size chunks rounds seed threads")
        ->expected(0, 7);
}

void LarsonOptions::settle(Options &common)
{
    Classic classic(classic_);
    classic.take_seconds(common.seconds);
    classic.take_count("min-size", 1, kSizeMax, common.min_size_bytes);
    classic.take_count("max-size", 1, kSizeMax, common.max_size_bytes);
    classic.take_count("chunks", 1, kCountMax, chunks);
    classic.take_count("rounds", 1, kCountMax, rounds);
    if (std::uint64_t seed; classic.take_count("seed", 0, UINT64_MAX, seed)) common.seed = seed;
    if (std::uint64_t threads; classic.take_count("threads", 1, kThreadsMax, threads))
        common.threads = static_cast<std::uint32_t>(threads);
    // Some versions of Larson's benchmark take the larger bound first.
    if (classic_.size() >= 3 && common.min_size_bytes > common.max_size_bytes) {
        std::swap(common.min_size_bytes, common.max_size_bytes);
        common.note = "larson: sizes of " + std::to_string(common.min_size_bytes) + " to " +
                      std::to_string(common.max_size_bytes) + " bytes: the bounds were given in reverse\n";
    }
}

// A short run would never get through a large window.
void LarsonOptions::finish(const Options &common)
{
    if (chunks == 0) chunks = std::min<std::uint64_t>(1000, std::max<std::uint64_t>(common.thread_ops() / 100, 4));
    check_blocks(common, chunks);
}

std::unique_ptr<OwnOptions> larson_options()
{
    return std::make_unique<LarsonOptions>();
}

} // namespace stress
