// The order of sequentially consistent operations and fences, as RC11 has it: the relation psc must have no cycle (Lahav et
// al., PLDI 2017, section 3). It may disagree with the order in which a run executes the operations, and with happens-before:
// see the litmus test Z6.U. So it is a graph, which is kept free of cycles: a choice that would close one is not offered.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "order/model/clock.h"

namespace stress::order {

class Serial {
  public:
    using Edge = std::pair<unsigned, unsigned>; // the first precedes the second
    struct Node {
        Event event;
        bool is_fence = false;
        std::uintptr_t location = 0;
        Clock clock; // with what the event itself acquires
        std::uint32_t left_at = 0; // number of the thread's first event behind it at another location; 0: none so far
    };

    void clear();
    bool is_empty() const { return nodes_.empty(); }
    unsigned next() const { return static_cast<unsigned>(nodes_.size()); }

    // Adds what precedes a new access or fence of this thread, because it is sequenced before it, or because it happens
    // before an event that is. `before`: the thread's clock before the event acquires anything; `elsewhere`: the clock of
    // its last event at another location. For a fence both are the clock with what it acquires.
    void precede_access(unsigned thread, const Clock &before, const Clock &elsewhere, std::vector<Edge> &edges) const;
    void precede_fence(unsigned thread, const Clock &clock, std::vector<Edge> &edges) const;
    // The fences that happen before an event with this clock, and those that the event happens before: of each thread the
    // nearest, since those of one thread are in order.
    void fences_before(const Clock &clock, std::vector<unsigned> &found) const;
    void fences_after(Event event, std::vector<unsigned> &found) const;

    // Leaves out edges to and from the next node, which is this thread's, that others imply: the nodes of one thread are in order,
    // so the last of them that precedes the next node is enough, and the first that follows it. What precedes the thread's
    // node before need not be said again.
    void thin(unsigned thread, std::vector<Edge> &edges) const;
    // Whether the edges can be added.
    bool allows(const std::vector<Edge> &edges) const;
    void add(const Node &node, const std::vector<Edge> &edges);
    void add(const std::vector<Edge> &edges);

    // The thread's next event has this number, at this location.
    void touch(unsigned thread, std::uint32_t number, std::uintptr_t location);

  private:
    std::vector<Node> nodes_;
    std::vector<std::vector<unsigned>> next_; // successors by node
    std::vector<unsigned> of_thread_[kThreadsMax];
    std::vector<unsigned> here_[kThreadsMax]; // of the thread's accesses, those without left_at
    unsigned followed_[kThreadsMax][kThreadsMax] =
        {}; // by a thread's nodes: the other thread's last node, with 1 added
    bool has_fences_ = false;
};

} // namespace stress::order
