// What is judged of a forked child: that it can go on, and that it has lost nothing but what its other threads were in
// the midst of.
#pragma once

#include "explore/world.h"

namespace stress {

// When the child's thread has done what it does. Ends all threads; nothing is live then.
void child_judge(World &world);

}  // namespace stress
