#include "engine/seat/seat.h"

namespace stress {

bool Seat::refill()
{
    const std::size_t start = filled % kRingOps;
    const std::size_t room = kRingOps - start < kBatchOps ? kRingOps - start : kBatchOps;
    const std::size_t count = generator->fill(&ring[start], room);
    for (std::size_t i = 0; i < count; ++i) ring[start + i].thread = static_cast<std::uint16_t>(index);
    filled += count;
    return count > 0;
}

// Logs the op before it is tried, so that an op that never ends is in the log too.
void Seat::log_begin()
{
    if (next < log->room) log->entries[next] = {ring[next % kRingOps], 0};
    log->begun = next + 1;
}

void Seat::consume()
{
    if (log != nullptr) [[unlikely]] {
        if (next < log->room && sched_now != nullptr) log->entries[next].stamp = sched_now->clock();
        log->done = next + 1;
    }
    ++next;
}

}  // namespace stress
