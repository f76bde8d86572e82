#include <nlohmann/json.hpp>

#include "engine/result.h"

namespace stress {

std::string result_json(const Result &result)
{
    nlohmann::ordered_json failures = nlohmann::ordered_json::array();
    for (const FailureText &failure : result.failures)
        failures.push_back({{"rule", failure.rule}, {"detail", failure.detail}});

    const nlohmann::ordered_json json = {
        {"scenario", result.scenario},
        {"allocator", result.allocator},
        {"check", result.check},
        {"seed", result.seed},
        {"threads", result.threads},
        {"threads_started", result.threads_started},
        {"ops", result.ops},
        {"seconds", result.seconds},
        {"ops_per_second", result.ops_per_second()},
        {"peak_live_bytes", result.peak_live_bytes},
        {"peak_rss_bytes", result.peak_rss_bytes},
        {"end_rss_bytes", result.end_rss_bytes},
        {"memory_bound_bytes", result.memory_bound_bytes},
        {"verdict", result.passed() ? "pass" : "fail"},
        {"failures", failures},
        {"reproduce", result.reproduce},
    };
    // replace: a path that is not UTF-8 must not cost the whole result.
    return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stress
