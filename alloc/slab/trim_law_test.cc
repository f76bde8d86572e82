// trim_law_test.cc: the law of when a heap that shrinks is trimmed: in random histories it trims at once, or after the wait that
// it has learned, and what is put off is made later if most still lies free.
#include "heap/heap_test_support.h"

extern "C" {
#include "os/os.h"
#include "slab/owner.h"
#include "slab/trim.h"
}

namespace {

// What owner.h and config.h say of the times.
struct TrimTimesSaid {
    static constexpr uint64_t DELAY_MS = PURGE_DELAY_MS;
    uint64_t trimmed_ms = 0, due_ms = 0; // due: when the trim that was put off is tried; 0: none was
    size_t seen_bytes = 0; // in use when it was put off or tried last
    uint32_t in_a_row = 0, released_pages = 0;
    bool is_wanted = false; // trimmed memory was, since the last trim

    // Whether it trims now. A heap that wants memory back each time waits twice as long before the next trim.
    bool shrunk(uint64_t now_ms, size_t used_bytes)
    {
        const uint64_t since_ms = now_ms - trimmed_ms;
        if (!is_wanted && since_ms >= WINDOW_DELAYS * DELAY_MS) in_a_row = 0;
        due_ms = 0;
        if ((is_wanted || in_a_row != 0) && since_ms < DELAY_MS << in_a_row) {
            due_ms = trimmed_ms + (DELAY_MS << in_a_row);
            seen_bytes = used_bytes;
            return false;
        }
        if (is_wanted) in_a_row = std::min(in_a_row + 1, (uint32_t)TRIM_WAIT_LOG2_MAX);
        is_wanted = false;
        released_pages = 0;
        trimmed_ms = now_ms;
        return true;
    }

    // Whether a trim that was put off is made now: more lies free than is in use, and that has not grown.
    bool tried(uint64_t now_ms, size_t used_bytes, size_t idle_bytes)
    {
        if (due_ms == 0 || now_ms < due_ms) return false;
        due_ms = now_ms + DELAY_MS;
        const bool has_not_grown = used_bytes <= std::exchange(seen_bytes, used_bytes);
        return has_not_grown && idle_bytes > used_bytes;
    }

    // New slabs first take pages that ended slabs had given up.
    void made(uint32_t pages)
    {
        is_wanted = is_wanted || pages >= released_pages;
        released_pages -= std::min(pages, released_pages);
    }
};

class TrimLaw : public test::HeapTest {
  protected:
    static inline unsigned long long now_ms_;
    void SetUp() override
    {
        HeapTest::SetUp();
        now_ms_ = os_now_ms();
        hak_clock_hook = [] { return now_ms_; };
    }
    void TearDown() override
    {
        hak_clock_hook = nullptr;
        HeapTest::TearDown();
    }
};

} // namespace

TEST_F(TrimLaw, WhenAHeapThatShrinksIsTrimmed)
{
    static owner none = {}; // without slabs
    TrimTimesSaid said;
    test::Rng rng;
    size_t made = 0, tried = 0, longest = 0;
    for (int i = 0; i < 50000; i++) {
        const size_t used = rng.below(8) * test::MIB;
        if (rng.below(2) == 0) owner_used_bytes_set(&none, used);
        atomic_store_explicit(&none.carved_bytes, owner_used_bytes(&none) + rng.below(8) * test::MIB,
                              memory_order_relaxed);
        now_ms_ += rng.below(3) * ((uint64_t)PURGE_DELAY_MS << rng.below(said.in_a_row + 1)) / 2 + rng.below(2);
        const uint32_t pages = (uint32_t)rng.below(5);
        switch (rng.below(6)) {
        case 0:
            none.used_bytes_peak = 100 * test::MIB;
            slab_trim_shrunk(&none);
            ASSERT_EQ(none.used_bytes_peak, owner_used_bytes(&none));
            ASSERT_EQ(slab_trim_is_due(&none), said.shrunk(now_ms_, owner_used_bytes(&none))) << i;
            made += slab_trim_is_due(&none);
            slab_trim_all(&none);
            break;
        case 1: {
            const bool due = said.tried(now_ms_, owner_used_bytes(&none), owner_idle_bytes(&none));
            ASSERT_EQ(slab_trim_put_off(&none, now_ms_), due) << i;
            tried += due;
            break;
        }
        case 2: { // the thread ends: nobody would make the trim later
            const bool has_shrunk = rng.below(2) == 0;
            none.used_bytes_peak = has_shrunk ? 100 * test::MIB : 0;
            none.idle_bytes_kept = SIZE_MAX; // a trim sets it at its end
            slab_trim_left(&none);
            ASSERT_EQ(none.idle_bytes_kept == owner_idle_bytes(&none), has_shrunk || said.due_ms != 0) << i;
            said.due_ms = 0;
            break;
        }
        case 3: none.trimmed_pages_released += pages, said.released_pages += pages; break;
        default: slab_trim_may_be_wanted(&none, pages), said.made(pages);
        }
        ASSERT_EQ(none.trimmed_is_wanted, said.is_wanted) << i;
        ASSERT_EQ(none.put_off_ms, said.due_ms) << i;
        longest = std::max<size_t>(longest, said.in_a_row);
    }
    EXPECT_GT(made, 1000u);
    EXPECT_GT(tried, 100u);
    EXPECT_EQ(longest, (size_t)TRIM_WAIT_LOG2_MAX);
}
