// Larson and Krishnan, "Memory allocation for long-running server applications" (1998): a thread owns a window of
// blocks and replaces random ones; after a while it starts a successor, hands it the window and ends.
#include <pthread.h>
#include <semaphore>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

// The state that a thread hands on. One thread at a time uses it; pthread_create and the semaphore order one after the
// other.
struct Chain {
    const Plan &plan;
    Seat &seat;
    Draw draw;
    std::vector<void *> window;
    std::uint64_t left;  // pairs left in the present part
    bool timed = false;
    pthread_t before{};  // the thread that handed the window on
    bool has_before = false;
    // In the warm-up a thread stays until its successor has done its part, unless they work in turn. In the timed part
    // the end of one and the start of the next may overlap, as the machine has it, and then both hold memory. The
    // warm-up sees that once.
    bool before_stays = false;
    std::binary_semaphore replaced{0};
    pthread_t last{}; // set by the last thread
    std::binary_semaphore done{0};
};

void *link(void *of);

void spawn(Chain &chain)
{
    pthread_t successor;
    const int fault = pthread_create(&successor, nullptr, link, &chain);
    if (fault == 0) return;
    std::fprintf(stderr, "hakmem-bench: cannot start a thread: %s\n", std::strerror(fault));
    std::exit(1);
}

void replace(Chain &chain, std::uint64_t pairs)
{
    Draw draw = chain.draw;
    void **const window = chain.window.data();
    const std::uint64_t count = chain.window.size(), low = chain.plan.low, range = chain.plan.high - low + 1;
    for (; pairs != 0; --pairs) {
        const std::uint64_t drawn = draw.step();
        void *&slot = window[Draw::high_part(drawn, count)];
        free(slot);
        void *const block = malloc(low + Draw::low_part(drawn, range));
        store(block, drawn);
        slot = block;
    }
    chain.draw = draw;
}

// Whether the chain continues: the timed part follows the warm-up, and ends it.
bool next_part(Chain &chain)
{
    if (chain.left != 0) return true;
    if (chain.timed) return false;
    chain.timed = true;
    chain.left = Plan::share(chain.plan.ops, chain.seat.index, chain.plan.threads);
    chain.seat.start();
    return chain.left != 0;
}

void *link(void *of)
{
    Chain &chain = *static_cast<Chain *>(of);
    // The predecessor ended long ago, or is about to. A thread that nobody joins would keep its stack.
    const bool joins = chain.has_before;
    const pthread_t before = chain.before;
    const bool before_stays = chain.before_stays;
    const Handover handover = chain.plan.handover;
    const std::uint64_t pairs = std::min(chain.left, chain.plan.handover_pairs);
    if (joins && handover == Handover::kInTurn) {
        pthread_join(before, nullptr);
        chain.seat.turn(); // the thread before had the turn until its end
    }
    replace(chain, pairs);
    chain.left -= pairs;
    if (before_stays) chain.replaced.release();
    if (joins && handover != Handover::kInTurn) pthread_join(before, nullptr);
    if (next_part(chain)) {
        const bool stays = handover == Handover::kOverlapping || (handover == Handover::kFree && !chain.timed);
        chain.before = pthread_self();
        chain.has_before = true;
        chain.before_stays = stays;
        spawn(chain);
        if (stays) chain.replaced.acquire();
    } else {
        chain.seat.finish();
        chain.last = pthread_self();
        chain.done.release();
    }
    return nullptr;
}

} // namespace

double larson(const Plan &plan)
{
    return Team(plan.threads, plan.turns).run([&](Seat &seat) {
        Chain chain{plan, seat, Draw(plan.seed, seat.index), std::vector<void *>(plan.count),
                    Plan::share(plan.warm_ops, seat.index, plan.threads)};
        for (void *&block : chain.window) {
            block = malloc(chain.draw.between(plan.low, plan.high));
            store(block, 0);
        }
        spawn(chain);
        chain.done.acquire();
        pthread_join(chain.last, nullptr);
        for (void *block : chain.window) free(block);
    });
}

} // namespace bench
