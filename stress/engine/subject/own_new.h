// The program's own operator new; see own_new.cc.
#pragma once

namespace stress {

// From now on what is deleted is used again. Only for a process that has one thread and no malloc under test: the
// driver of a campaign, which runs for days.
void own_new_reuse();

}  // namespace stress
