#include "engine/seat/op_stream.h"

#include "engine/seat/sched.h"

namespace stress {

bool OpStream::refill()
{
    const std::size_t start = drawn_ % kRingOps;
    const std::size_t room = kRingOps - start < kBatchOps ? kRingOps - start : kBatchOps;
    const std::size_t count = generator->fill(&ring_[start], room);
    for (std::size_t i = 0; i < count; ++i) ring_[start + i].thread = static_cast<std::uint16_t>(seat_);
    drawn_ += count;
    return count > 0;
}

// Logs the op before it is tried, so that an op that never ends is in the log too.
void OpStream::log_begin()
{
    if (consumed_ < log->room) log->entries[consumed_] = {ring_[consumed_ % kRingOps], 0};
    log->begun = consumed_ + 1;
}

void OpStream::consume()
{
    if (log != nullptr) [[unlikely]] {
        if (consumed_ < log->room && sched_now != nullptr) log->entries[consumed_].stamp = sched_now->clock();
        log->done = consumed_ + 1;
    }
    ++consumed_;
}

} // namespace stress
