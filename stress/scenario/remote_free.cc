// Remote free: the thread that frees a block is never the one that allocated it. There are five modes, run in turn
// unless one is chosen:
//
// - queue: producers deal blocks to consumers, which free them between calls of their own. Finds lost and doubled
//   remote frees, and races of a remote free with the owner's refill.
// - ring: each thread sends blocks to the next, and frees the blocks from the previous one. Every thread is owner and
//   remote at once. Finds deadlocks, and lists that grow because each thread waits for another.
// - all-to-all: each thread sends to every other. Finds staging tables that overflow, and frees to many owners that
//   meet in one list.
// - owner-exit: owners allocate, hand over and end; their blocks are freed while they end, or long after, when several
//   successors have come and gone. Finds heaps released with live blocks, remote lists of ended threads that nobody
//   drains, and growth.
// - free-only: the freeing threads never allocate, and end after a batch. Finds per-thread state that only malloc sets
//   up, and freed blocks that stay in the cache of a dead thread.
//
// Blocks travel through channels (draws.h) in rounds. In each round all sends come before all receives. So the rounds
// one after another are the sequence that the law of channels demands: no jam, whatever the order within a round and
// however small the rings.
//
// A crate is the sends of one round. Receivers may lag: the crate that they free is `lag` rounds old, and rings hold
// lag + 1 crates. In ring and all-to-all, threads can therefore run ahead of each other. In owner-exit a receiver first
// takes the first block of the newest crate, which proves that the owner of the previous crate is ending or gone, and
// only then frees the rest of an older crate; a crate of one block has no rest.
//
// The conductor, a stream of random numbers of which every seat has its own copy, draws each phase.
#include <algorithm>

#include "engine/base/mapped.h"
#include "scenario/draws.h"
#include "scenario/remote_free_options.h"
#include "scenario/scenarios.h"

namespace stress {
namespace {

constexpr std::uint64_t kChannelSlotsMax = std::uint64_t{1} << 20;
constexpr std::uint64_t kOwnerLagMax = 3, kBurstMax = 64;

// Parameters of a phase, the same for all seats.
struct Traffic {
    RemoteMode asked;
    std::uint32_t seats, producers;
    bool bipartite; // channels lead from producers to consumers only
    std::uint32_t ring_log2;
    std::uint64_t burst_max, phase_sends;
    bool check;
    std::uint32_t own_one_in, realloc_one_in; // 0: never
    Mix mix;
    Sizes sizes;

    std::uint32_t consumers() const { return seats - producers; }
    std::uint32_t channel_count() const { return bipartite ? producers * consumers() : seats * seats; }
    Channel channel(std::uint32_t from, std::uint32_t to) const
    {
        const std::uint32_t index = bipartite ? from * consumers() + to - producers : from * seats + to;
        return {index << ring_log2, ring_log2};
    }
};

struct Phase {
    RemoteMode mode;
    std::uint64_t burst, lag, rounds;
};

struct Step {
    enum Kind : std::uint32_t { Send, Receive, Renew } kind;
    std::uint32_t peer;
    std::uint64_t message;
};

struct Station {
    Traffic traffic;
    Rng rng, conductor;
    std::uint32_t seat, own_slot;
    Mapped<std::uint64_t> sent, received; // for each peer: messages of all earlier phases
    Mapped<Step> steps; // of this round
    std::size_t step_count = 0, step_next = 0;
    Phase phase{};
    std::uint64_t round = 0, turn = 0;
    std::uint64_t frees_left = 0; // for this thread, in free-only
    Burst own{};

    bool producer() const { return seat < traffic.producers; }
    bool next(Op &op)
    {
        if (own.take(op)) return true;
        while (step_next == step_count) begin_round();
        take(steps[step_next++], op);
        return true;
    }

    void take(const Step &step, Op &op);
    void begin_round();
    void begin_phase();
    void end_phase();
    void queue_round();
    void ring_round();
    void all_to_all_round();
    void with_all_others(Step::Kind kind, std::uint64_t index);
    void owner_exit_round();
    void add(Step::Kind kind, std::uint32_t peer, std::uint64_t index)
    {
        const std::uint64_t before = kind == Step::Send ? sent[peer] : received[peer];
        steps[step_count++] = {kind, peer, before + index};
    }
    // The crates to receive in this round; in the last round of a phase, all that are on their way.
    std::uint64_t oldest_crate() const { return round > phase.lag ? round - phase.lag : 0; }
    std::uint64_t newest_crate() const
    {
        if (round + 1 == phase.rounds) return round + 1;
        return round >= phase.lag ? round - phase.lag + 1 : 0;
    }
    // Shuffles the steps since `from`.
    void mix_steps(std::size_t from) { shuffle(rng, &steps[from], step_count - from); }
};

void Station::take(const Step &step, Op &op)
{
    if (step.kind == Step::Renew) {
        op = op_make(OpKind::Renew, 0);
        return;
    }
    const bool sends = step.kind == Step::Send;
    const Channel channel = sends ? traffic.channel(seat, step.peer) : traffic.channel(step.peer, seat);
    const std::uint32_t slot = channel.slot(step.message);
    if (sends) {
        const std::size_t size_bytes = traffic.sizes.draw(rng);
        op = mix_allocate(traffic.mix, rng, slot, size_bytes, size_bytes);
        op.link = channel.send_link(step.message);
        return;
    }
    const bool free_only = phase.mode == RemoteMode::FreeOnly;
    op = draw_free(rng, slot, traffic.check);
    if (!free_only && traffic.realloc_one_in != 0 && rng.one_in(traffic.realloc_one_in))
        op = op_make(OpKind::Realloc, slot, traffic.sizes.draw(rng));
    op.link = channel.receive_link(step.message);
    if (phase.mode == RemoteMode::Queue && traffic.own_one_in != 0 && rng.one_in(traffic.own_one_in)) {
        own.add(op_make(OpKind::Malloc, own_slot, traffic.sizes.draw(rng)));
        own.add(op_make(OpKind::Free, own_slot));
    }
    if (free_only && --frees_left == 0) {
        own.add(op_make(OpKind::Renew, 0));
        frees_left = 1 + rng.below(traffic.phase_sends);
    }
}

void Station::begin_phase()
{
    constexpr RemoteMode modes[] = {RemoteMode::Queue, RemoteMode::Ring, RemoteMode::AllToAll, RemoteMode::OwnerExit,
                                    RemoteMode::FreeOnly};
    phase.mode = traffic.asked == RemoteMode::All ? modes[turn++ % 5] : traffic.asked;
    const bool crates = phase.mode == RemoteMode::Ring || phase.mode == RemoteMode::OwnerExit;
    phase.burst = !crates ? 1 : traffic.check ? 1 + conductor.below(traffic.burst_max) : traffic.burst_max;
    const std::uint64_t lag_max =
        phase.mode == RemoteMode::OwnerExit ? kOwnerLagMax : (std::uint64_t{1} << traffic.ring_log2) / phase.burst - 1;
    phase.lag = traffic.check && conductor.one_in(2) ? conductor.below(lag_max + 1) : lag_max;
    const std::uint64_t peers = phase.mode == RemoteMode::Ring ? 1 : std::max(traffic.producers, traffic.consumers());
    phase.rounds = phase.lag + 2 + traffic.phase_sends / (phase.burst * peers);
    round = 0;
    if (phase.mode == RemoteMode::FreeOnly && !producer()) {
        frees_left = 1 + rng.below(traffic.phase_sends);
        steps[step_count++] = {Step::Renew, 0, 0}; // ends a thread that has allocated
    }
}

// Every channel that the mode uses carried `burst` messages in each round.
void Station::end_phase()
{
    const std::uint64_t messages = phase.burst * phase.rounds;
    const std::uint32_t seats = traffic.seats;
    for (std::uint32_t peer = 0; peer < seats && phase.rounds > 0; ++peer) {
        const bool peer_produces = peer < traffic.producers;
        bool sends = producer() && !peer_produces, receives = !producer() && peer_produces;
        if (phase.mode == RemoteMode::AllToAll) sends = receives = peer != seat;
        if (phase.mode == RemoteMode::Ring) {
            sends = peer == (seat + 1) % seats;
            receives = seat == (peer + 1) % seats;
        }
        if (sends) sent[peer] += messages;
        if (receives) received[peer] += messages;
    }
}

void Station::begin_round()
{
    step_count = step_next = 0;
    if (round == phase.rounds) {
        end_phase();
        begin_phase();
    }
    switch (phase.mode) {
    case RemoteMode::Ring: ring_round(); break;
    case RemoteMode::AllToAll: all_to_all_round(); break;
    case RemoteMode::OwnerExit: owner_exit_round(); break;
    default: queue_round(); break;
    }
    ++round;
}

void Station::queue_round()
{
    const std::size_t from = step_count;
    if (producer())
        for (std::uint32_t to = traffic.producers; to < traffic.seats; ++to) add(Step::Send, to, round);
    else
        for (std::uint32_t source = 0; source < traffic.producers; ++source) add(Step::Receive, source, round);
    mix_steps(from);
}

void Station::ring_round()
{
    const std::uint32_t next_seat = (seat + 1) % traffic.seats, previous = (seat + traffic.seats - 1) % traffic.seats;
    for (std::uint64_t i = 0; i < phase.burst; ++i) add(Step::Send, next_seat, round * phase.burst + i);
    for (std::uint64_t crate = oldest_crate(); crate < newest_crate(); ++crate) {
        const std::size_t from = step_count;
        for (std::uint64_t i = 0; i < phase.burst; ++i) add(Step::Receive, previous, crate * phase.burst + i);
        mix_steps(from);
    }
}

void Station::with_all_others(Step::Kind kind, std::uint64_t index)
{
    const std::size_t from = step_count;
    for (std::uint32_t peer = 0; peer < traffic.seats; ++peer)
        if (peer != seat) add(kind, peer, index);
    mix_steps(from);
}

void Station::all_to_all_round()
{
    with_all_others(Step::Send, round);
    for (std::uint64_t crate = oldest_crate(); crate < newest_crate(); ++crate) with_all_others(Step::Receive, crate);
}

void Station::owner_exit_round()
{
    const std::uint64_t burst = phase.burst;
    if (producer()) {
        for (std::uint64_t i = 0; i < burst; ++i)
            for (std::uint32_t to = traffic.producers; to < traffic.seats; ++to) add(Step::Send, to, round * burst + i);
        steps[step_count++] = {Step::Renew, 0, 0};
        return;
    }
    for (std::uint32_t source = 0; source < traffic.producers; ++source) add(Step::Receive, source, round * burst);
    mix_steps(0);
    for (std::uint64_t crate = oldest_crate(); crate < newest_crate(); ++crate) {
        const std::size_t from = step_count;
        for (std::uint64_t i = 1; i < burst; ++i)
            for (std::uint32_t source = 0; source < traffic.producers; ++source)
                add(Step::Receive, source, crate * burst + i);
        mix_steps(from);
    }
}

std::uint32_t ring_log2(const Setup &setup, const Traffic &traffic, std::uint64_t queue_slots)
{
    const std::uint64_t room = kChannelSlotsMax / traffic.channel_count();
    // Even a short run must go around the rings several times.
    const std::uint64_t peers = std::max(traffic.producers, traffic.consumers());
    const std::uint64_t modes = traffic.asked == RemoteMode::All ? 5 : 1;
    const std::uint64_t wanted = queue_slots != 0 ? queue_slots : scaled(setup, 1024, 4 * peers * modes, 4);
    return 63 - static_cast<std::uint32_t>(__builtin_clzll(std::min(room, wanted)));
}

} // namespace

Plan remote_free_plan(const Setup &setup)
{
    const Options &o = setup.options;
    const auto &own = own_options<RemoteFreeOptions>(o);
    Rng swarm = setup.rng(0, 2);
    constexpr std::uint32_t one_in[] = {0, 16, 32, 64};
    Traffic traffic{};
    traffic.asked = own.mode;
    traffic.seats = setup.seats;
    traffic.producers = own.producers;
    traffic.bipartite =
        own.mode == RemoteMode::Queue || own.mode == RemoteMode::OwnerExit || own.mode == RemoteMode::FreeOnly;
    traffic.ring_log2 = ring_log2(setup, traffic, own.queue_slots);
    const std::uint64_t crate_max = (std::uint64_t{1} << traffic.ring_log2) / (kOwnerLagMax + 1);
    traffic.burst_max = std::clamp<std::uint64_t>(std::min(crate_max, std::uint64_t{1024} / setup.seats), 1, kBurstMax);
    traffic.phase_sends = scaled(setup, 1024, 60, 8);
    traffic.check = o.check;
    traffic.mix = o.check ? mix_few_others(swarm, o.strict) : mix_malloc_only();
    traffic.sizes = o.check ? sizes_swarm(swarm, o.min_size_bytes, o.max_size_bytes)
                            : sizes_uniform(o.min_size_bytes, o.max_size_bytes);
    traffic.realloc_one_in = o.check ? one_in[swarm.below(4)] : 0;
    traffic.own_one_in = o.check ? static_cast<std::uint32_t>(swarm.below(5)) : 4;

    const std::uint32_t channel_slots = traffic.channel_count() << traffic.ring_log2;
    // The last round of a phase receives everything that the rings hold.
    const std::size_t steps_max = ((std::size_t{1} << traffic.ring_log2) + 2 * traffic.burst_max + 2) * setup.seats + 2;
    Plan plan;
    plan.slot_count = std::size_t{channel_slots} + setup.seats;
    for (std::uint32_t seat = 0; seat < setup.seats; ++seat)
        plan.generators.push_back(generator_of(Station{
            .traffic = traffic,
            .rng = setup.rng(seat),
            .conductor = setup.rng(0, 1),
            .seat = seat,
            .own_slot = channel_slots + seat,
            .sent = Mapped<std::uint64_t>(setup.seats),
            .received = Mapped<std::uint64_t>(setup.seats),
            .steps = Mapped<Step>(steps_max),
        }));
    if (o.check) plan.claims = {rule::kContent};
    if (o.check && setup.seats > 1) plan.claims.push_back({rule::kHandover, 20000});
    return plan;
}

} // namespace stress
