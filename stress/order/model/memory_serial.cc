// What accesses and fences add to the graph of seq_cst operations.
#include <algorithm>

#include "order/model/memory.h"

namespace stress::order {

// The access, and the fences that happen before it, precede the node.
void Memory::demand(const Access &from, unsigned node, std::vector<Serial::Edge> &edges) const
{
    if (from.is_serial) edges.emplace_back(from.node, node);
    for (const unsigned fence : from.fences) edges.emplace_back(fence, node);
}

// What the access adds to psc: (SC; or F; hb?) scb (SC; or hb?; F), and F; hb; eco; hb; F. Of scb there is sb and
// sb|!=loc; hb; sb|!=loc (serial.h), and at this location hb, the modification order and from-read.
std::vector<Serial::Edge> Memory::edges(const Plan &plan, const Clock &clock, Option option, Order order) const
{
    std::vector<Serial::Edge> edges;
    const bool is_serial = order == Order::seq_cst;
    if (serial_.is_empty()) return edges;
    const unsigned node = serial_.next();
    const Thread &thread = threads_[plan.thread];
    const Location &location = *plan.location;
    if (is_serial) {
        const bool is_elsewhere = thread.last_location != location.start;
        serial_.precede_access(plan.thread, plan.before, is_elsewhere ? thread.last_clock : thread.elsewhere, edges);
    }
    std::vector<unsigned> fences, follow;
    serial_.fences_before(clock, fences);
    for (const Access &other : location.accesses) {
        const unsigned rank = location.stores[other.store].rank;
        if (is_serial && (clock.has(other.event) || (option.is_write && rank <= option.rank)))
            demand(other, node, edges);
        if (rank <= option.rank) continue;
        follow.clear();
        serial_.fences_after(other.event, follow);
        for (const unsigned fence : follow) {
            for (const unsigned from : fences) edges.emplace_back(from, fence);
            if (is_serial && other.is_write) edges.emplace_back(node, fence);
        }
        if (!other.is_write || !other.is_serial) continue;
        for (const unsigned from : fences) edges.emplace_back(from, other.node);
        if (is_serial) edges.emplace_back(node, other.node);
    }
    serial_.thin(plan.thread, edges);
    return edges;
}

// What precedes a new fence with this clock because of a location: accesses that are before one that happens before the
// fence, in modification order, by from-read, or because they happen before it; and fences before what is
// coherence-ordered before it.
void Memory::demand_of_fence(const Location &location, const Clock &clock, std::vector<Serial::Edge> &edges) const
{
    const unsigned node = serial_.next();
    unsigned written = 0, seen = 0; // the last ranks that happen before the fence
    bool is_read = false; // one that reads is among the latter
    for (const Access &access : location.accesses) {
        if (!clock.has(access.event)) continue;
        const unsigned rank = location.stores[access.store].rank;
        if (access.is_write) written = std::max(written, rank);
        if (rank > seen) is_read = false;
        if (rank >= seen) is_read |= !access.is_write;
        seen = std::max(seen, rank);
    }
    for (const Access &access : location.accesses) {
        const unsigned rank = location.stores[access.store].rank;
        if (rank < written) demand(access, node, edges);
        if (rank < seen || (rank == seen && access.is_write && is_read))
            for (const unsigned fence : access.fences) edges.emplace_back(fence, node);
        if (!access.is_serial) continue;
        for (const Access &later : location.accesses)
            if (&later != &access && clock.has(later.event) && later.clock.has(access.event))
                edges.emplace_back(access.node, node);
    }
}

} // namespace stress::order
