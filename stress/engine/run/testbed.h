// What the ops of a run meet: the seats, the slots, and the oracle that judges every block. The parts of a run share it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/base/mapped.h"
#include "engine/judge/claim_map.h"
#include "engine/judge/failure.h"
#include "engine/judge/line_map.h"
#include "engine/judge/memory.h"
#include "engine/judge/oracle.h"
#include "engine/op/counters.h"
#include "engine/op/slots.h"
#include "engine/run/options.h"
#include "engine/run/scenario.h"
#include "engine/seat/seat.h"
#include "engine/subject/support.h"

namespace stress {

struct Testbed {
    // The options and the plan must outlive it.
    Testbed(const Options &run_options, Support support, Plan &plan);
    ~Testbed();
    Testbed(const Testbed &) = delete;
    Testbed &operator=(const Testbed &) = delete;

    bool failed() const { return failures.any(); }
    // Who saw a failure of the whole run.
    Witness witness() const { return seats[0]->interp.witness(); }
    // The sum over all seats. Any thread.
    std::uint64_t sum(std::atomic<std::uint64_t> Counters::*counter) const;

    const Options &options;
    std::atomic<bool> stop{false};
    FailureLog failures{stop};
    ClaimMap claims;
    std::unique_ptr<LineMap> lines; // only if the plan asks for it
    Oracle oracle{claims, failures};
    Slots slots;
    InterpShared shared{oracle, slots, stop};
    Mapped<Seat *> seats;
    Mapped<const Counters *> counters; // of the seats
    MemoryMeter meter{claims, counters};
};

} // namespace stress
