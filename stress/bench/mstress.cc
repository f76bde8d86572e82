// The shape of mimalloc's test-stress. Threads allocate small blocks and a few large ones, keep some until they end,
// free random others, and swap some with a shared array, where other threads find them. Threads live for one
// generation. Then half of the blocks in the array are freed; the next generation finds the rest.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "bench/random.h"
#include "bench/team.h"

namespace bench {
namespace {

constexpr std::uint64_t kPairsOfThread = 10000;  // in a generation
constexpr std::size_t kTransfers = 1000;

class Stress {
  public:
    explicit Stress(const Plan &plan)
        : plan_(plan), draw_(plan.seed, 0), transfer_(std::make_unique<std::atomic<void *>[]>(kTransfers)),
          desks_(plan.threads)
    {
        for (Desk &desk : desks_) {
            desk.data.reserve(kPairsOfThread);
            desk.kept.reserve(kPairsOfThread);
        }
    }

    // Allocates `pairs` blocks and frees all of them.
    void go(std::uint64_t pairs)
    {
        while (pairs != 0) {
            const std::uint64_t most = kPairsOfThread * plan_.threads, part = pairs < most ? pairs : most;
            {
                std::vector<std::jthread> threads;
                for (std::uint32_t i = 0; i < plan_.threads; ++i) {
                    threads.emplace_back([this, i, part, seed = draw_.step()] {
                        live(desks_[i], Draw(seed, i), Plan::share(part, i, plan_.threads));
                    });
                }
            }
            pairs -= part;
            for (std::size_t i = 0; i < kTransfers; ++i) {
                if (pairs == 0 || draw_.below(2) == 0) free(swap(i, nullptr));
            }
        }
    }

  private:
    // The lists of a thread; made once, so that they do not count as its work.
    struct alignas(64) Desk {
        std::vector<void *> data, kept;
    };

    // Receives a block that another thread wrote, and leaves one that this thread wrote.
    void *swap(std::size_t at, void *block) { return transfer_[at].exchange(block, std::memory_order_acq_rel); }

    // 8 to (8 << shifts) / 2 bytes, a power of two; one block in a hundred is a hundred times as large.
    static void *fresh(Draw &draw, std::uint64_t shifts)
    {
        const std::uint64_t drawn = draw.step();
        std::size_t size = std::size_t{8} << Draw::high_part(drawn, shifts);
        if (Draw::low_part(drawn, 100) == 0) size *= 100;
        void *const block = malloc(size);
        store(block, drawn);
        return block;
    }

    void live(Desk &desk, Draw draw, std::uint64_t pairs)
    {
        for (; pairs != 0; --pairs) {
            if (draw.below(2) == 0) {
                desk.data.push_back(fresh(draw, 5));
            } else {
                desk.kept.push_back(fresh(draw, 7));
            }
            if (desk.data.empty()) continue;
            if (draw.below(3) != 0) {
                void *&victim = desk.data[draw.below(desk.data.size())];
                free(victim);
                victim = nullptr;
            }
            if (draw.below(4) == 0) {
                void *&mine = desk.data[draw.below(desk.data.size())];
                mine = swap(draw.below(kTransfers), mine);
            }
        }
        for (void *block : desk.kept) free(block);
        for (void *block : desk.data) free(block);
        desk.kept.clear();
        desk.data.clear();
    }

    const Plan &plan_;
    Draw draw_;
    std::unique_ptr<std::atomic<void *>[]> transfer_;
    std::vector<Desk> desks_;
};

}  // namespace

// The team has one thread, which starts the generations and waits for them.
double mstress(const Plan &plan)
{
    return Team(1).run([&](Seat &seat) {
        Stress stress(plan);
        stress.go(plan.warm_ops);
        seat.start();
        stress.go(plan.ops);
        seat.finish();
    });
}

}  // namespace bench
