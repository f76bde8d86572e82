// Runs one check in a child, so that a crash or a hang is a finding of that check and the other checks still run.
#pragma once

#include <span>

#include "conform/check.h"
#include "conform/report.h"
#include "engine/watch/watcher.h"

namespace stress::conform {

// The child leads its own process group, which is killed as a whole at the end or at a limit. Its output does not reach
// the terminal; if it crashes, its last line becomes part of the detail.
Finding run_in_child(const Check &check, const Subject &subject, const WatchLimits &limits);

// For a check: what it is about to do, for the message if it hangs or crashes there ("fork 3 while ..."). Static memory;
// allocates nothing. Any thread, one at a time.
[[gnu::format(printf, 1, 2)]] void now_doing(const char *format, ...);

// Shared with the processes that the check forks: the text of what one of them found wrong. One child at a time.
std::span<char> wrong_of_fork();

// Called in the child before it becomes another program. From then on, the program's exit status is the verdict (0
// pass, 1 fail, 77 skip), and its last line is the detail ("ok" for a pass).
void child_becomes_program();

} // namespace stress::conform
