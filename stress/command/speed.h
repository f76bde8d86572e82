// What `hakmem-stress speed` can time.
#pragma once

#include <string>
#include <vector>

namespace stress {

// The scenarios that hakmem-bench has a loop of; none in a build that times nothing.
std::vector<std::string> speed_scenarios();

} // namespace stress
