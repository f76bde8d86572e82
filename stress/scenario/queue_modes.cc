#include "scenario/queue_modes.h"

#include "engine/mapped.h"
#include "scenario/handover.h"

namespace stress {
namespace {

constexpr std::uint64_t kBatch = 512;  // blocks that a free-only thread frees in its life

// One seat's place in the traffic. An edge has one writer and one reader.
struct Station {
    Run *run;
    Edge *edges;           // the first of those that concern the seat
    std::size_t count;     // how many
    std::size_t stride;    // from one to the next
    bool free_only;

    Edge &edge(std::size_t index) const { return edges[index * stride]; }
};

// Producers: allocate, send to a random consumer. Waiting for room draws no random number, so the stream
// of ops depends on the seed alone.
Outcome produce(Seat &seat, void *argument)
{
    Station &station = *static_cast<Station *>(argument);
    Run &run = *station.run;
    for (bool ok = true; ok && seat.go_on();) {
        Block block{};
        ok = handover_allocate(seat, run.options, block);
        Edge &edge = station.edge(seat.rng.below(station.count));
        while (ok && !edge_send(edge, block)) {
            ok = !run.failed();
            handover_wait();
        }
    }
    for (std::size_t i = 0; i < station.count; ++i) station.edge(i).queue.close();
    return Outcome::Done;
}

// Frees a received block; in queue mode one in four is followed by a block of the consumer's own.
bool consume_one(Seat &seat, const Station &station, Block &block)
{
    if (!seat.interp.release(block)) return false;
    if (station.free_only || !seat.rng.one_in(4)) return true;
    Block own{};
    return handover_allocate(seat, station.run->options, own) && seat.interp.release(own);
}

Outcome consume(Seat &seat, void *argument)
{
    Station &station = *static_cast<Station *>(argument);
    Run &run = *station.run;
    std::uint64_t freed = 0;
    for (;;) {
        bool all_drained = true, moved = false;
        for (std::size_t i = 0; i < station.count; ++i) {
            Edge &edge = station.edge(i);
            Block block;
            for (int burst = 0; burst < 32 && edge_receive(edge, block, seat, run.failures()); ++burst) {
                if (run.failed() || !consume_one(seat, station, block)) return Outcome::Done;
                moved = true;
                ++freed;
            }
            all_drained &= edge.queue.drained();
        }
        if (all_drained || run.failed()) return Outcome::Done;
        if (station.free_only && freed >= kBatch) return Outcome::Successor;
        if (!moved) handover_wait();
    }
}

// Producers to consumers: one edge for each pair, producer by producer.
void producers_to_consumers(Run &run, double share, bool free_only)
{
    const std::size_t producers = run.options.producers, consumers = run.options.consumers;
    Mapped<Edge> edges(producers * consumers);
    for (Edge &edge : edges) edge.queue.prepare(run.options.queue_slots);
    Mapped<Station> stations(producers + consumers);
    // Half of the calls are the producers' mallocs.
    run.phase_begin(share, 2 * producers);
    for (std::size_t i = 0; i < producers + consumers && !run.failed(); ++i) {
        const bool producer = i < producers;
        stations[i] = {&run, producer ? &edges[i * consumers] : &edges[i - producers],
                       producer ? consumers : producers, producer ? 1 : consumers, free_only};
        run.start(run.seat(i), producer ? produce : consume, &stations[i]);
    }
    run.phase_end();
    for (const Edge &edge : edges) edge_judge(edge, run.seat(0), run.failures());
}

struct RingStation {
    Run *run;
    Edge *in;
    Edge *out;
};

// Frees at most one block from the thread before; true when one came.
bool ring_receive(Seat &seat, const RingStation &station)
{
    Block block;
    if (!edge_receive(*station.in, block, seat, station.run->failures())) return false;
    return !station.run->failed() && seat.interp.release(block);
}

Outcome ring_thread(Seat &seat, void *argument)
{
    RingStation &station = *static_cast<RingStation *>(argument);
    Run &run = *station.run;
    for (std::uint64_t left = seat.ops_left(); left > 0 && !seat.stopped(); --left) {
        Block block{};
        if (!handover_allocate(seat, run.options, block)) return Outcome::Done;
        while (!edge_send(*station.out, block)) {
            if (run.failed()) return Outcome::Done;
            if (!ring_receive(seat, station)) handover_wait();
        }
        ring_receive(seat, station);
    }
    station.out->queue.close();
    while (!station.in->queue.drained() && !run.failed())
        if (!ring_receive(seat, station)) handover_wait();
    return Outcome::Done;
}

}  // namespace

void queue_phase(Run &run, double share)
{
    producers_to_consumers(run, share, false);
}

void free_only_phase(Run &run, double share)
{
    producers_to_consumers(run, share, true);
}

void ring_phase(Run &run, double share)
{
    const std::size_t count = run.seats().size();
    Mapped<Edge> edges(count);  // edge i leads to thread i
    for (Edge &edge : edges) edge.queue.prepare(run.options.queue_slots);
    Mapped<RingStation> stations(count);
    run.phase_begin(share, 2 * count);  // the other half are frees of what the others sent
    for (std::size_t i = 0; i < count && !run.failed(); ++i) {
        stations[i] = {&run, &edges[i], &edges[(i + 1) % count]};
        run.start(run.seat(i), ring_thread, &stations[i]);
    }
    run.phase_end();
    for (const Edge &edge : edges) edge_judge(edge, run.seat(0), run.failures());
}

}  // namespace stress
