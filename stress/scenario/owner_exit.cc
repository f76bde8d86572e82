// Each receiver has one or more owners. An owner is a thread that fills a crate with blocks and ends; the
// receiver then starts the next owner on the same seat. The crate's blocks are freed either
// - early: as soon as the crate is full, while the owner's thread is still ending; or
// - late: after the owner was joined, while its successor fills the other crate.
#include "scenario/owner_exit.h"

#include <atomic>

#include "engine/mapped.h"
#include "engine/team.h"
#include "scenario/handover.h"

namespace stress {
namespace {

constexpr std::size_t kCrateBlocks = 256;

struct Crate {
    Block blocks[kCrateBlocks];
    std::size_t count = 0;
    std::atomic<bool> full{false};
};

struct Owner {
    Run *run;
    Seat *seat;
    Crate crates[2];
    std::size_t turn = 0;  // the crate that the next life fills
    pthread_t thread;
    bool early = false;
};

struct Receiver {
    Run *run;
    Owner *owners;  // the first of its own
    std::size_t count;
    std::size_t stride;

    Owner &owner(std::size_t index) const { return owners[index * stride]; }
};

void *owner_life(void *argument)
{
    Owner &owner = *static_cast<Owner *>(argument);
    Crate &crate = owner.crates[owner.turn];
    bump(owner.seat->counters.threads_started, 1);
    for (crate.count = 0; crate.count < kCrateBlocks && owner.seat->go_on(); ++crate.count)
        if (!handover_allocate(*owner.seat, owner.run->options, crate.blocks[crate.count])) break;
    // release: publishes the crate. Pairs with the acquire in unload_early. The last act of this thread.
    crate.full.store(true, std::memory_order_release);
    return nullptr;
}

bool unload(Crate &crate, Seat &seat, const Run &run)
{
    for (std::size_t i = 0; i < crate.count; ++i)
        if (run.failed() || !seat.interp.release(crate.blocks[i])) return false;
    crate.count = 0;
    return true;
}

bool unload_early(Crate &crate, Seat &seat, const Run &run)
{
    while (!crate.full.load(std::memory_order_acquire)) handover_wait();
    return unload(crate, seat, run);
}

bool start_owner(Owner &owner, Seat &receiver_seat)
{
    owner.early = receiver_seat.rng.one_in(2);
    owner.crates[owner.turn].full.store(false, std::memory_order_relaxed);
    const int error = thread_create(owner.thread, owner_life, &owner);
    if (error != 0)
        owner.run->failures().add(rule::kThread, receiver_seat.interp.witness(),
                                  "pthread_create failed with errno %d; ask for fewer threads", error);
    return error == 0;
}

// One life of each owner that has ops left. False when there is none, or after a failure.
bool next_lives(Receiver &receiver, Seat &seat)
{
    Run &run = *receiver.run;
    bool started = false, ok = true;
    for (std::size_t i = 0; i < receiver.count && ok; ++i) {
        Owner &owner = receiver.owner(i);
        if (!owner.seat->go_on()) continue;
        ok = start_owner(owner, seat);
        if (!ok) break;
        started = true;
        Crate &late = owner.crates[1 - owner.turn];
        ok = unload(late, seat, run);
        if (ok && owner.early) ok = unload_early(owner.crates[owner.turn], seat, run);
        pthread_join(owner.thread, nullptr);
        owner.turn = 1 - owner.turn;
    }
    return ok && started;
}

Outcome receive(Seat &seat, void *argument)
{
    Receiver &receiver = *static_cast<Receiver *>(argument);
    while (next_lives(receiver, seat)) {
    }
    for (std::size_t i = 0; i < receiver.count; ++i)
        for (Crate &crate : receiver.owner(i).crates)
            if (!unload(crate, seat, *receiver.run)) return Outcome::Done;
    return Outcome::Done;
}

}  // namespace

void owner_exit_phase(Run &run, double share)
{
    const std::size_t owner_count = run.options.producers;
    const std::size_t receiver_count = run.options.consumers < owner_count ? run.options.consumers : owner_count;
    Mapped<Owner> owners(owner_count);
    for (std::size_t i = 0; i < owner_count; ++i) {
        owners[i].run = &run;
        owners[i].seat = &run.seat(i);
    }
    Mapped<Receiver> receivers(receiver_count);
    // Half of the calls are the owners' mallocs.
    run.phase_begin(share, 2 * owner_count);
    for (std::size_t i = 0; i < receiver_count && !run.failed(); ++i) {
        const std::size_t count = (owner_count - i + receiver_count - 1) / receiver_count;
        receivers[i] = {&run, &owners[i], count, receiver_count};
        run.start(run.seat(owner_count + i), receive, &receivers[i]);
    }
    run.phase_end();
}

}  // namespace stress
