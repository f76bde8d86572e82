// What plans share: sizes to draw, a mix for scenarios that are not about the kind of call, queues of ops, and slots
// that pass blocks from seat to seat.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/rng.h"
#include "engine/op/mix.h"
#include "engine/op/op.h"
#include "engine/run/scenario.h"

namespace stress {

inline constexpr std::size_t kPageBytes = 4096;  // the smallest page of any system

// A way to draw sizes from min to max bytes.
struct Sizes {
    enum class How : std::uint8_t {
        Uniform,
        Log,      // each doubling is equally likely
        Borders,  // around class borders, powers of two and pages, one byte off either way
        Few,      // one to four sizes
    };
    static constexpr std::size_t kFew = 4;

    How how;
    std::size_t min_bytes, max_bytes;
    std::size_t few[kFew];
    std::uint32_t few_count;

    std::size_t draw(Rng &rng) const;
};

// Swarm: the seed picks the way.
Sizes sizes_swarm(Rng &rng, std::size_t min_bytes, std::size_t max_bytes);
Sizes sizes_uniform(std::size_t min_bytes, std::size_t max_bytes);

std::size_t draw_log(Rng &rng, std::size_t min_bytes, std::size_t max_bytes);
std::size_t draw_border(Rng &rng, std::size_t min_bytes, std::size_t max_bytes);

// Nearly always malloc. About one block in sixteen comes from another call; the seed picks the weights of those and
// switches some off.
Mix mix_few_others(Rng &rng, bool strict);

// Frees the slot: mostly by free; in checked runs also by the sized calls of C23.
Op draw_free(Rng &rng, std::uint32_t slot, bool check);

// A random bit for each step of a scenario: whether it is on in this run. At least one is on.
std::uint32_t draw_switches(Rng &rng, std::uint32_t how_many);

// Ops that belong together, handed out one by one.
struct Burst {
    Op ops[8];
    std::uint32_t count = 0, given = 0;

    void add(const Op &op) { ops[count++] = op; }
    bool take(Op &op)
    {
        if (given == count) return false;
        op = ops[given++];
        if (given == count) given = count = 0;
        return true;
    }
};

// A ring of linked slots that carries blocks from one seat to another: message k lies in slot k modulo the size of the
// ring. Each message is two ops on its slot, first the sender's, then the receiver's, so both know the link of every op
// without communication. A receiver that must not free can realloc instead; the sender's next malloc there is then
// skipped, and the receiver's next op meets the block again.
//
// Law (no jam): suppose that all ops of all seats can be written as one sequence, in which every receive comes after
// its send, and the send of message k comes after the receive of message k - size, and that each seat draws its own ops
// in that order. Then the seats never wait for each other in a circle: the first op of the sequence that is not yet
// done can always be done.
struct Channel {
    std::uint32_t first_slot;
    std::uint32_t slots_log2;

    std::uint32_t slot(std::uint64_t k) const
    {
        return first_slot + static_cast<std::uint32_t>(k & ((std::uint64_t{1} << slots_log2) - 1));
    }
    // Links count from 1 to 65535 and start again.
    static std::uint16_t link_of(std::uint64_t use) { return static_cast<std::uint16_t>(use % 0xffff + 1); }
    std::uint16_t send_link(std::uint64_t k) const { return link_of((k >> slots_log2) * 2); }
    std::uint16_t receive_link(std::uint64_t k) const { return link_of((k >> slots_log2) * 2 + 1); }
};

template <typename Item> void shuffle(Rng &rng, Item *items, std::size_t count)
{
    for (std::size_t i = count; i > 1; --i) {
        const std::size_t other = rng.below(i);
        const Item item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}

// The maximum number of ops that a seat will draw; a very large number if only time is the limit.
std::uint64_t ops_per_seat(const Setup &setup);

// `wanted`, or less in a run too short for a seat to get through that many slots `times` times.
std::uint64_t scaled(const Setup &setup, std::uint64_t wanted, std::uint64_t times, std::uint64_t least);

// The stream and the mix of each seat. Checked runs are swarm: each seat lacks some kinds of ops, but all together none.
struct SeatMix {
    Rng rng;
    Mix mix;
};
std::vector<SeatMix> swarm_of_seats(const Setup &setup);

// A plan in which each seat has slots_per_seat slots of its own. make(seat, first_slot) gives its generator.
template <typename Make> Plan plan_of_seats(const Setup &setup, std::size_t slots_per_seat, Make make)
{
    Plan plan;
    plan.slot_count = slots_per_seat * setup.seats;
    for (std::uint32_t seat = 0; seat < setup.seats; ++seat)
        plan.generators.push_back(generator_of(make(seat, static_cast<std::uint32_t>(seat * slots_per_seat))));
    return plan;
}

} // namespace stress
