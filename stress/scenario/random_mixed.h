#pragma once

namespace stress {

class Run;

// See random_mixed.cc for what it does and which bugs it is likely to find.
void random_mixed_run(Run &run);

}  // namespace stress
