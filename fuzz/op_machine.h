// OpMachine: runs sequences of ops on the linked-in allocator, each sequence from the same state of the whole heap, and
// judges them with the suite's interpreter and oracle. Its threads are coroutines (explore/fibers/fiber.h). Ops run in the
// order of the sequence, except those that stop in the middle.
//
// An op's `link` encodes its stop. The low byte is the point at which it stops: an atomic access of the allocator
// (explore/inside/points.h), counted from 1; 0: it does not stop. The high byte is the number of ops that begin meanwhile. A
// stopped op continues earlier if another op needs its slot, its thread, or a lock that it holds. So every sequence
// with any links can be run, and runs the same way each time; leaving out an op does not move the stops of the others.
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

// Whether the machine runs ops of this kind; it skips others. A machine that runs ten thousand sequences a second
// cannot run ops that concern the process: fork, signals, libraries, limits.
bool machine_runs(OpKind kind);

struct MachineResult {
    const char *rule = nullptr; // rule of the first failure; nullptr: none
    char detail[400] = "";
    std::uint64_t points = 0; // points passed by all ops together
    std::uint64_t stops = 0; // that were made
    std::uint64_t refused = 0; // system calls that failed, as FailOs asked
    std::uint64_t hash = 0; // over the points, in order: equal for equal runs
};

// One at a time. If the machine cannot be set up, ends the process with a line that says why. A failed check of the
// allocator also ends the process (failfast: abort).
class OpMachine {
  public:
    OpMachine();
    ~OpMachine();
    OpMachine(const OpMachine &) = delete;
    OpMachine &operator=(const OpMachine &) = delete;

    // Threads and slots are taken modulo the number that exists.
    MachineResult run(std::span<const Op> ops, std::uint32_t threads);

    // If set, prints each op before it begins, and each stop with what the op was doing then.
    bool verbose = false;

  private:
    struct Parts;
    Parts *parts_;
};

} // namespace fuzz
