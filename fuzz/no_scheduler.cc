// Answers the interpreter's calls of the suite's seeded scheduler. There is none here, because the machine's threads
// are coroutines.
#include "engine/seat/sched.h"

namespace stress {

Sched *sched_now = nullptr;

bool sched_active()
{
    return false;
}

void sched_blocked(const char *) {}

void Sched::progress() {}

}  // namespace stress
