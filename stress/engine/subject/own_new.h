// The program's own operator new; see own_new.cc.
#pragma once

namespace stress {

// From now on, deleted memory is reused. Only for a process with one thread and no malloc under test: the driver of a
// campaign, which runs for days.
void own_new_reuse();

}  // namespace stress
