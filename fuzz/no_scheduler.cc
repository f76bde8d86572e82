// The interpreter asks the suite's seeded scheduler; here there is none, since the machine's threads are coroutines.
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
