// What a run saw: how many ops of each kind it did, and how often each rule of the oracle could have been broken.
#pragma once

#include <string>
#include <vector>

#include "engine/run/result.h"
#include "engine/run/testbed.h"

namespace stress {

// Kinds that never came are left out of the counts of ops, and no rule is left out of the cases.
std::vector<CountOf> op_counts(const Testbed &testbed);
std::vector<CountOf> rule_cases(const Testbed &testbed);

// Which of these rules never had a case, and in how many ops; empty: none, or the run is too short to tell.
std::string claim_without_case(const std::vector<CountOf> &cases, const std::vector<const char *> &claims,
                               std::uint64_t ops);

}  // namespace stress
