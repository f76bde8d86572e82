#pragma once

namespace stress {

class Run;

// See larson.cc for what it does and which bugs it is likely to find.
void larson_run(Run &run);

}  // namespace stress
