// The live blocks of scenarios in which threads end, fork, are interrupted or run out of memory. A seat fills and frees
// random slots of its own, and passes one block in six to the next seat, which frees it. So at any moment it holds
// blocks of threads that are gone, and others hold its own.
#pragma once

#include "engine/base/mapped.h"
#include "engine/op/mix.h"
#include "scenario/draws.h"

namespace stress {

// The size of a Renew op. Cancel: ops until it takes effect. Destructors: a seed for what they draw. Only in strict
// runs do destructors of keys allocate, because known mallocs lose memory there.
std::size_t renew_size(Rng &rng, RenewHow how, bool strict);

class LiveMix {
  public:
    // Slots that a seat needs: its own, and those of the channel to the next seat.
    static std::size_t slots_per_seat(const Setup &setup);
    LiveMix(const Setup &setup, std::uint32_t seat);

    Op draw();

    // A quarter of all seats draw no realloc. This one does, for a scenario that has no other seat.
    void need_realloc();

    Rng rng;

  private:
    Op draw_own();
    Op draw_passed();

    Mix mix_;
    std::size_t min_bytes_, max_bytes_;
    std::uint32_t first_slot_;
    Channel out_, in_;
    std::uint64_t sent_ = 0, received_ = 0;
    Mapped<unsigned char> live_; // of each own slot: whether it holds a block
};

} // namespace stress
