#include "explore/child.h"

#include <hakmem/hakmem.h>

#include <algorithm>

#include "explore/inside/arena.h"
#include "explore/inside/inside.h"
#include "explore/inside/inside_fork.h"

namespace stress {
namespace {

constexpr std::size_t kPage = 65536, kSlabMax = 8 * kPage, kSmallMax = 32768, kRunMax = std::size_t{2} << 20;
constexpr std::size_t kStage = 16384;  // bytes of one slab's blocks that are posted together
constexpr std::size_t kTiny = 16;

// What may be lost in the calls that threads were making when the child was forked.
struct Lost {
    std::size_t small_bytes = 0, run_bytes = 0, huge_count = 0;
    bool only_frees = true;  // frees of small blocks: a post is one step, and no page changes hands

    void add(const World::Call &call)
    {
        using Kind = World::Call::Kind;
        if (call.kind == Kind::None) return;
        const bool is_block = call.kind == Kind::Take || call.kind == Kind::Give;
        only_frees = only_frees && call.kind == Kind::Give && call.size_bytes <= kSmallMax;
        if (is_block && call.size_bytes > kRunMax) {
            ++huge_count;
        } else if (is_block && call.size_bytes > kSmallMax) {
            run_bytes += (call.size_bytes + kPage - 1) / kPage * kPage;
        } else {
            run_bytes += kSlabMax;  // one slab on its way from or to the pool
            if (call.kind == Kind::Give) small_bytes += std::max(call.size_bytes, kStage);
        }
    }
};

// Starts threads in the child, on the stacks of the stopped threads, which libc reuses. Each adopts an orphan, if there
// is one.
void start_threads(World &world)
{
    for (unsigned thread = 0; thread + 1 < world.threads && !world.runner.failed(); ++thread) {
        world.runner.fibers().renew(thread);
        world.in(thread, [](World &each) { each.take(World::kPlaces - 1 - each.runner.fibers().current(), kTiny); });
    }
}

void heaps_hold(World &world)
{
    const void *heaps[Fibers::kMax] = {};
    for (unsigned thread = 0; thread <= world.threads && !world.runner.failed(); ++thread)
        world.runner.call(thread, [&] { heaps[thread] = inside_heap(); });
    char text[200];
    if (!world.runner.failed() && !inside_fork_heaps_hold(heaps, world.threads + 1, text, sizeof text))
        world.runner.fail("law", "law 4 in the child: %s", text);
}

void balance(World &world, const Lost &lost)
{
    const inside_fork_use use = inside_fork_in_use();
    if (use.small_bytes <= lost.small_bytes && use.run_bytes <= lost.run_bytes && use.huge_count <= lost.huge_count)
        return;
    world.runner.fail(
        "balance",
        "nothing is live in the child, yet %zu bytes are in small blocks of heaps that nobody was changing "
        "(%zu may be), %zu in runs (%zu), %zu huge blocks (%zu)",
        use.small_bytes, lost.small_bytes, use.run_bytes, lost.run_bytes, use.huge_count, lost.huge_count);
}

} // namespace

void child_judge(World &world)
{
    Lost lost;
    for (unsigned thread = 0; thread + 1 < world.threads; ++thread) lost.add(world.now.calls[thread]);
    start_threads(world);
    world.heaps_apart();
    heaps_hold(world);
    world.in(world.threads - 1, [](World &each) { each.give_all(); });
    for (unsigned thread = 0; thread <= world.threads; ++thread)
        world.in(thread, [](World &each) { each.thread_end(); });
    // Structures that were being changed break laws, and stay as they are for good.
    const bool all_laws = lost.only_frees && inside_fork_left_count() == 0;
    if (all_laws) world.in(world.stranger(), [](World &each) { each.laws(); });
    world.in(world.stranger(), [](World &) { hak_purge(); });
    if (all_laws) world.in(world.stranger(), [](World &each) { each.laws(); });
    if (!world.runner.failed()) balance(world, lost);
}

} // namespace stress
