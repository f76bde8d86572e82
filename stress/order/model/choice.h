// Each decision that the model leaves open in a run is a choice. A chooser makes it: by a search, at random, or as it was
// made in an earlier run.
#pragma once

#include <cstdint>

namespace stress::order {

enum class Choice : std::uint8_t {
    thread, // which thread continues; 0: the one that runs, if it can
    read, // which store a load or a read-modify-write reads, and whether a weak compare-exchange fails for no reason; 0: the
    // last in modification order
    place, // where a store goes in modification order; 0: at the end
};

class Choices {
  public:
    virtual ~Choices() = default;
    // Returns one of 0 to count - 1. Alternative 0 costs nothing. Every other one costs a preemption (thread; nothing
    // if the thread that ran cannot continue) or a stale read (the rest).
    virtual unsigned choose(Choice kind, unsigned count, bool is_free) = 0;
};

} // namespace stress::order
