// What a run saw: how many ops of each kind it did, and how often each rule of the oracle could have been broken.
#pragma once

#include <string>
#include <vector>

#include "engine/run/result.h"
#include "engine/run/scenario.h"
#include "engine/run/testbed.h"

namespace stress {

// Kinds that never came are left out of the counts of ops. Of the rules those are left out that few scenarios can have
// a case of, where they have none and are not claimed.
std::vector<CountOf> op_counts(const Testbed &testbed);
std::vector<CountOf> rule_cases(const Testbed &testbed, const ProcessFigures &process,
                                const std::vector<Claim> &claims);

// Which of these rules never had a case, and in how many ops; empty: none, or the run is too short to tell.
std::string claim_without_case(const std::vector<CountOf> &cases, const std::vector<Claim> &claims, std::uint64_t ops);

}  // namespace stress
