#include "scenario/handover.h"

#include <sched.h>

namespace stress {

bool edge_send(Edge &edge, Block &block)
{
    if (!edge.queue.push({block, edge.sent})) return false;
    ++edge.sent;
    block = {};
    return true;
}

bool edge_receive(Edge &edge, Block &block, Seat &seat, FailureLog &failures)
{
    Parcel parcel;
    if (!edge.queue.pop(parcel)) return false;
    block = parcel.block;
    if (parcel.number != edge.received)
        failures.add(rule::kHandover, seat.interp.witness(), "block %p arrived as number %llu instead of %llu",
                     block.start, static_cast<unsigned long long>(parcel.number),
                     static_cast<unsigned long long>(edge.received));
    edge.received = parcel.number + 1;
    return true;
}

void edge_judge(const Edge &edge, Seat &seat, FailureLog &failures)
{
    if (failures.any() || edge.sent == edge.received) return;
    failures.add(rule::kHandover, seat.interp.witness(), "%llu blocks were sent, but %llu received",
                 static_cast<unsigned long long>(edge.sent), static_cast<unsigned long long>(edge.received));
}

bool handover_allocate(Seat &seat, const Options &options, Block &block)
{
    const std::size_t low = options.min_size_bytes, high = options.max_size_bytes;
    if (seat.interp.checks())
        return seat.interp.allocate(mix_draw(mix_mostly_malloc(options.strict), seat.rng, low, high), block);
    return seat.interp.allocate({Kind::Malloc, seat.rng.between(low, high), 0}, block);
}

void handover_wait()
{
    sched_yield();
}

}  // namespace stress
