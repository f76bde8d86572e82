// OpMachine: runs a sequence of ops on the linked-in allocator, each from the same state of the whole heap, and judges
// it by the suite's interpreter and oracle. Its threads are coroutines (explore/fiber.h): an op is done where it stands
// in the sequence, but for those that stop in the middle.
//
// An op's `link` says so: its low byte is the point, counted from 1, at which it stops (an atomic access of the
// allocator; explore/points.h), 0: it does not; its high byte is how many ops are begun meanwhile. A stopped op goes on
// earlier if one needs its slot, its thread, or a lock that it holds. So every sequence with every link can be run, and
// means the same each time; and to leave out an op does not move the stops of the others.
#pragma once

#include <cstdint>
#include <span>

#include "engine/op/op.h"
#include "fuzz/op_stop.h"

namespace fuzz {

using stress::Op;
using stress::OpKind;

inline constexpr std::uint32_t kMachineThreadsMax = 4;
inline constexpr std::uint32_t kMachineSlots = 64;

// Whether the machine runs ops of this kind; others are passed over. What concerns the process is not for one that is
// to run ten thousand sequences a second: fork, signals, libraries, limits.
bool machine_runs(OpKind kind);

struct MachineResult {
    const char *rule = nullptr; // of the first failure; nullptr: none
    char detail[400] = "";
    std::uint64_t points = 0; // passed by all ops, in all
    std::uint64_t stops = 0; // that were made
    std::uint64_t refused = 0; // calls of the system that failed, as FailOs asked
    std::uint64_t hash = 0; // over the points, in order: equal where two runs are
};

// One at a time. Ends the process, with a line that says why, where the machine cannot be had. What the allocator's own
// checks find ends it too (failfast: abort).
class OpMachine {
  public:
    OpMachine();
    ~OpMachine();
    OpMachine(const OpMachine &) = delete;
    OpMachine &operator=(const OpMachine &) = delete;

    // Threads and slots are taken modulo what there is.
    MachineResult run(std::span<const Op> ops, std::uint32_t threads);

    // Where set, each op is printed before it begins, with its stops and what it was doing then.
    bool verbose = false;

  private:
    struct Parts;
    Parts *parts_;
};

} // namespace fuzz
