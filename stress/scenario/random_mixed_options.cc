// The classic arguments of random-mixed. They say what common options say, so the plan needs nothing of them.
#include "engine/base/cli_numbers.h"
#include "engine/run/own_options.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

class RandomMixedOptions final : public OwnOptions {
  public:
    void add(CLI::App &app) override
    {
        app.add_option("classic", classic_, "iterations of each thread, working set, seed")->expected(0, 3);
    }

    void settle(Options &common) override
    {
        Classic classic(classic_);
        std::uint64_t iterations = 0;
        if (classic.take_count("iterations", 1, kCountMax / kThreadsMax, iterations))
            common.ops = iterations * common.threads;
        classic.take_count("working-set", 1, kCountMax, common.working_set);
        if (std::uint64_t seed; classic.take_count("seed", 0, UINT64_MAX, seed)) common.seed = seed;
    }

  private:
    std::vector<std::string> classic_;
};

} // namespace

std::unique_ptr<OwnOptions> random_mixed_options()
{
    return std::make_unique<RandomMixedOptions>();
}

} // namespace stress
