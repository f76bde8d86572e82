// What every child that runs a malloc under test does first.
#pragma once

namespace stress {

// Called in the child: it leads a process group of its own, ends with its parent, dumps no core, and is the first to be
// killed if memory runs out on the machine.
void child_start();

} // namespace stress
