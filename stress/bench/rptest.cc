// The shape of rpmalloc-benchmark, "rptest": each thread replaces random blocks of its window; small sizes are more likely
// than large ones, and one block in kCrossing goes to a neighbour, who frees it.
#include <atomic>
#include <cstdlib>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

constexpr std::uint64_t kCrossing = 8;
constexpr std::uint64_t kTurnPairs = 256; // from one turn to the next, where threads take turns
constexpr std::size_t kSlots = 64;

// Where the threads leave blocks for their neighbours.
using Mail = std::vector<std::atomic<void *>>;

class Worker {
  public:
    Worker(const Plan &plan, Mail &mail, Seat &seat)
        : plan_(plan), mail_(mail), seat_(seat), own_(seat.index * kSlots),
          neighbours_((seat.index + 1) % plan.threads * kSlots), draw_(plan.seed, seat.index), window_(plan.count)
    {
        for (void *&block : window_) block = fresh();
    }

    void go(std::uint64_t pairs)
    {
        for (; pairs != 0; --pairs) {
            if (pairs % kTurnPairs == 0) seat_.turn();
            const std::uint64_t drawn = draw_.step();
            void *&slot = window_[Draw::high_part(drawn, window_.size())];
            free(Draw::low_part(drawn, kCrossing) == 0 ? swap(slot) : slot);
            slot = fresh();
        }
    }

    void end()
    {
        for (void *block : window_) free(block);
    }

  private:
    // The product of two even numbers: the density falls from the lowest size to the highest.
    void *fresh()
    {
        const std::uint64_t drawn = draw_.step(), range = plan_.high - plan_.low + 1;
        void *const block = malloc(plan_.low + Draw::high_part(drawn, Draw::low_part(drawn, range) + 1));
        store(block, drawn);
        return block;
    }

    // Leaves a block for the neighbour and takes what the other one left here. Null: nothing was there.
    void *swap(void *block)
    {
        const std::size_t at = draw_.below(kSlots);
        // acq_rel: publishes the block's word, and sees the other's. Pairs with itself in the neighbours.
        void *const back = mail_[neighbours_ + at].exchange(block, std::memory_order_acq_rel);
        if (back != nullptr) return back; // the neighbour has not come yet: it gets the newer one
        return mail_[own_ + at].exchange(nullptr, std::memory_order_acq_rel);
    }

    const Plan &plan_;
    Mail &mail_;
    Seat &seat_;
    const std::size_t own_, neighbours_;
    Draw draw_;
    std::vector<void *> window_;
};

} // namespace

double rptest(const Plan &plan)
{
    Mail mail(plan.threads * kSlots);
    const double seconds = Team(plan.threads, plan.turns).run([&](Seat &seat) {
        Worker worker(plan, mail, seat);
        worker.go(Plan::share(plan.warm_ops, seat.index, plan.threads));
        seat.start();
        worker.go(Plan::share(plan.ops, seat.index, plan.threads));
        seat.finish();
        worker.end();
    });
    for (const std::atomic<void *> &left : mail) free(left.load(std::memory_order_relaxed)); // the threads have ended
    return seconds;
}

} // namespace bench
