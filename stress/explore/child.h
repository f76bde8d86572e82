// Judges a forked child: it must be able to continue, and may have lost only what its other threads were working on.
#pragma once

#include "explore/world.h"

namespace stress {

// Call it when the child's thread has done its work. Ends all threads; nothing is live then.
void child_judge(World &world);

}  // namespace stress
