// Runs one check in a child, so that a crash or a hang is a finding of that check and the rest goes on.
#pragma once

#include "conform/check.h"
#include "conform/report.h"

namespace stress::conform {

// The child leads a process group of its own; at the end or the deadline the whole group is killed. What the child
// prints is kept from the terminal; the last line of it goes into the detail of a crash.
Finding run_in_child(const Check &check, const Subject &subject, double deadline_seconds);

// Called in the child: the verdict is from now on the exit status (0 pass, 1 fail, 77 skip) and the last line printed
// ("ok" for a pass) of the program that it becomes.
void child_becomes_program();

}  // namespace stress::conform
