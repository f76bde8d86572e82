#include "scenario/live_mix.h"

namespace stress {
namespace {

constexpr std::uint32_t kChannelLog2 = 5;
constexpr std::uint32_t kChannelSlots = 1U << kChannelLog2;
constexpr std::uint64_t kLag = 8;  // messages on their way

std::uint32_t own_slots(const Setup &setup)
{
    return static_cast<std::uint32_t>(setup.options.working_set);
}

std::uint32_t base_of(const Setup &setup, std::uint32_t seat)
{
    return seat * (own_slots(setup) + kChannelSlots);
}

}  // namespace

std::size_t renew_size(Rng &rng, RenewHow how, bool strict)
{
    if (how == RenewHow::Cancel) return rng.below(20);
    return how == RenewHow::Destructors && strict ? rng.between(1, 1000) : 0;
}

std::size_t LiveMix::slots_per_seat(const Setup &setup)
{
    return own_slots(setup) + kChannelSlots;
}

LiveMix::LiveMix(const Setup &setup, std::uint32_t seat)
    : rng(setup.rng(seat)), mix_(mix_swarm(rng, setup.options.strict)), min_bytes_(setup.options.min_size_bytes),
      max_bytes_(setup.options.max_size_bytes), first_slot_(base_of(setup, seat)),
      out_{base_of(setup, seat) + own_slots(setup), kChannelLog2},
      in_{base_of(setup, (seat + setup.seats - 1) % setup.seats) + own_slots(setup), kChannelLog2},
      live_(own_slots(setup))
{}

Op LiveMix::draw_own()
{
    const auto index = static_cast<std::uint32_t>(rng.below(live_.size()));
    const std::uint32_t slot = first_slot_ + index;
    const bool fills = live_[index] == 0;
    const Op op = fills ? mix_allocate(mix_, rng, slot, min_bytes_, max_bytes_)
                        : mix_visit_live(mix_, rng, slot, min_bytes_, max_bytes_);
    live_[index] = fills || op.kind == OpKind::Realloc;
    return op;
}

// All seats send message k before any receives message k - kLag: no jam, by the law of Channel.
Op LiveMix::draw_passed()
{
    if (sent_ >= received_ + kLag) {
        const std::uint64_t k = received_++;
        return op_make(OpKind::Free, in_.slot(k), 0, 0, in_.receive_link(k));
    }
    const std::uint64_t k = sent_++;
    return op_make(OpKind::Malloc, out_.slot(k), rng.between(min_bytes_, max_bytes_), 0, out_.send_link(k));
}

void LiveMix::need_realloc()
{
    if (mix_.realloc_percent == 0) mix_.realloc_percent = 20;
}

Op LiveMix::draw()
{
    return rng.one_in(6) ? draw_passed() : draw_own();
}

}  // namespace stress
