// owed_test.cc: when a heap whose thread pauses begins a trim.
#include "heap/heap_test_support.h"

extern "C" {
#include "cache/owed.h"
#include "os/os.h"
#include "slab/trim.h"
#include "superslab/purge.h"
}

namespace {

// A heap without a slab, whose idle bytes the test sets.
struct Idle {
    heap of{};
    tcache cache{};
    Idle() { cache.heap = &of; }
    void has(size_t bytes) { atomic_store_explicit(&of.owner.carved_bytes, bytes, memory_order_relaxed); }
    // Whether the thread begins a trim when it comes back from a long pause.
    bool trims_after_pause()
    {
        of.owner.trimmed_is_wanted = false; // nothing that a trim took was wanted again, so none is put off
        of.owner.trims_wanted = 0;
        tcache_trim_idle(&cache, os_now_ms(), (uint64_t)PAUSE_DELAYS * PURGE_DELAY_MS);
        return slab_trim_is_due(&of.owner);
    }
    // The trim ends, and this much still lies idle.
    void trim_leaves(size_t bytes)
    {
        has(bytes);
        slab_trim_all(&of.owner);
    }
};

} // namespace

// A trim begins if TRIM_IDLE_BYTES_MIN more lies idle than the least that did at any pause since the last trim, or that this
// left. In every history of four pauses, whether a trim gives all back or nothing.
TEST(Owed, APauseTrimsWhatIsIdleBeyondTheLeastSince)
{
    const size_t least = TRIM_IDLE_BYTES_MIN;
    const std::vector<size_t> levels = {0, least - 1, least, least + least / 2, 2 * least + least / 2};
    const size_t pauses = 4;
    size_t histories = 1, trims = 0;
    for (size_t i = 0; i < pauses; i++) histories *= levels.size();
    for (const bool gives : {false, true}) {
        for (size_t history = 0; history < histories; history++) {
            auto idle = std::make_unique<Idle>();
            size_t kept = 0, rest = history;
            for (size_t pause = 0; pause < pauses; pause++, rest /= levels.size()) {
                const size_t level = levels[rest % levels.size()];
                idle->has(level);
                kept = std::min(kept, level);
                const bool expected = level >= kept + least;
                ASSERT_EQ(idle->trims_after_pause(), expected) << "history " << history << ", pause " << pause;
                if (!expected) continue;
                trims++;
                idle->trim_leaves(kept = gives ? 0 : level);
            }
        }
    }
    EXPECT_GT(trims, histories);
}

// Only a pause of PAUSE_DELAYS delays does that.
TEST(Owed, AShortPauseTrimsNothing)
{
    auto idle = std::make_unique<Idle>();
    idle->has(4 * (size_t)TRIM_IDLE_BYTES_MIN);
    tcache_trim_idle(&idle->cache, os_now_ms(), (uint64_t)PAUSE_DELAYS * PURGE_DELAY_MS - 1);
    EXPECT_FALSE(slab_trim_is_due(&idle->of.owner));
    EXPECT_TRUE(idle->trims_after_pause());
}
