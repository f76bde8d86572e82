#pragma once

namespace stress {

class Run;

// See remote_free.cc for the modes and which bugs they are likely to find.
void remote_free_run(Run &run);

}  // namespace stress
