#include "engine/registry.h"

#include "scenario/larson.h"
#include "scenario/random_mixed.h"
#include "scenario/remote_free.h"

namespace stress {
namespace {

constexpr Scenario kScenarios[] = {
    {"larson", "threads replace random blocks in a window that outlives them: orphaned heaps and remote frees",
     larson_run},
    {"random-mixed", "each thread fills and frees random slots with all kinds of calls: size classes, realloc, zeroing",
     random_mixed_run},
    {"remote-free", "every block is freed by another thread than allocated it: remote free, thread exit",
     remote_free_run},
};

}  // namespace

std::span<const Scenario> scenarios()
{
    return kScenarios;
}

const Scenario *scenario_find(const std::string &name)
{
    for (const Scenario &scenario : kScenarios)
        if (name == scenario.name) return &scenario;
    return nullptr;
}

}  // namespace stress
