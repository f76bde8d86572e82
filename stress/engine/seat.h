// A seat is a logical worker: its random numbers, counters and interpreter. Threads sit on it one after
// another, so a stream of ops goes on unchanged when a successor takes over.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "engine/counters.h"
#include "engine/interp.h"
#include "engine/queue.h"
#include "engine/rng.h"

namespace stress {

enum class Outcome { Done, Successor };

struct Seat {
    // The work of a thread on this seat; Successor asks for a fresh thread to go on with it.
    using Body = Outcome (*)(Seat &seat, void *argument);

    Seat(std::uint32_t seat_index, std::uint64_t seed, Oracle &oracle, Support support, bool check,
         const std::atomic<bool> &stop_flag)
        : index(seat_index), rng(seed, seat_index), interp(oracle, counters, support, seat_index, check),
          stop(stop_flag), retired(kRetiredSlots)
    {
    }

    // Whether to start another op: the phase is not over and the share of ops is not used up.
    bool go_on() const { return read(counters.ops) < ops_limit && !stop.load(std::memory_order_relaxed); }

    // How many ops the phase still has for this seat. A body whose ops are not all of its own choosing
    // counts down from here instead of asking go_on, so that its stream does not depend on the others.
    std::uint64_t ops_left() const { return ops_limit - read(counters.ops); }
    bool stopped() const { return stop.load(std::memory_order_relaxed); }

    static constexpr std::size_t kRetiredSlots = 256;

    alignas(128) Counters counters;
    std::uint32_t index;
    Rng rng;
    Interp interp;
    std::uint64_t ops_limit = 0;
    const std::atomic<bool> &stop;

    // For the team.
    Body body = nullptr;
    void *argument = nullptr;
    pthread_t predecessor{};
    bool has_predecessor = false;
    std::atomic<bool> finished{true};
    SpscQueue<pthread_t> retired;  // threads of this seat that are ending and must be joined
};

}  // namespace stress
