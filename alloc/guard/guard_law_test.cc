// guard_law_test.cc: the law of sampled blocks in random histories: where each lies, which is taken next, and what is known of
// each address of the range.
#include "guard/guard_test_support.h"

#include <deque>

extern "C" {
#include "os/os.h"
}

namespace {

struct SlotSaid {
    uint64_t start = 0; // 0: no block has been here
    size_t size = 0;
    bool is_live = false;
};

class GuardLaw : public test::GuardTest {
  protected:
    // What guard.h says of an address: it belongs to the slot of its page, or between two pages to the nearer block, as near to
    // both to the later.
    static uint32_t slot_of(const std::vector<SlotSaid> &slots, uint64_t range, uint64_t address)
    {
        const uint64_t cell = (address - range) / os_page_bytes();
        if (cell % 2 == 1 || cell == 0) return (uint32_t)(cell / 2);
        const auto index = (uint32_t)(cell / 2);
        const SlotSaid &below = slots[index - 1];
        if (below.start == 0) return index;
        if (index == slots.size() || slots[index].start == 0) return index - 1;
        return address - below.start - below.size < slots[index].start - address ? index - 1 : index;
    }

    static void expect_known(const std::vector<SlotSaid> &slots, uint64_t range, uint64_t address)
    {
        guard_history known;
        ASSERT_TRUE(guard_find(address, &known));
        const uint32_t index = slot_of(slots, range, address);
        const SlotSaid said = index < slots.size() ? slots[index] : SlotSaid{};
        ASSERT_EQ(known.start, said.start);
        ASSERT_EQ(known.size_bytes, said.size);
        if (said.start == 0) {
            ASSERT_EQ(known.state, RECORD_STATE_unknown);
            return;
        }
        ASSERT_EQ(known.slot, index);
        ASSERT_EQ(known.state, said.is_live ? RECORD_STATE_live : RECORD_STATE_freed);
        ASSERT_EQ(known.finding, address < said.start                ? RECORD_FINDING_before
                                 : address >= said.start + said.size ? RECORD_FINDING_past_end
                                 : said.is_live                      ? RECORD_FINDING_none
                                                                     : RECORD_FINDING_use_after);
        ASSERT_EQ(known.allocated.thread, (uint32_t)gettid());
        ASSERT_GT(known.allocated.count, 0u);
        ASSERT_EQ(known.freed.thread, said.is_live ? 0u : (uint32_t)gettid());
        ASSERT_EQ(known.freed.count != 0, !said.is_live);
    }
};

} // namespace

TEST_F(GuardLaw, InAnyHistory)
{
    constexpr uint32_t SLOTS = 7;
    with(SLOTS, 0, [] {
        const size_t page = os_page_bytes();
        test::Rng rng;
        std::vector<SlotSaid> slots(SLOTS);
        std::deque<uint32_t> queue; // of free slots: the one that was freed first is taken first
        for (uint32_t i = 0; i < SLOTS; i++) queue.push_back(i);
        auto *first = static_cast<char *>(guard_alloc(GUARD_BYTES_MAX));
        const uint64_t range = (uint64_t)(uintptr_t)first / page * page - page;
        guard_free(first);
        slots[0] = {(uint64_t)(uintptr_t)first, GUARD_BYTES_MAX, false};
        queue.pop_front(), queue.push_back(0);
        uint64_t sampled = 1;
        for (int step = 0; step < 20000; step++) {
            SCOPED_TRACE("step " + std::to_string(step));
            const size_t size = rng.between(1, rng.below(2) == 0 ? 64 : GUARD_BYTES_MAX);
            const auto index = (uint32_t)rng.below(SLOTS);
            SlotSaid &slot = slots[index];
            const auto block = [&slot] {
                return reinterpret_cast<char *>(slot.start);
            }; // NOLINT(performance-no-int-to-ptr)
            const size_t rounded = (slot.size + 15) / 16 * 16;
            switch (rng.below(4)) {
            case 0: {
                auto *taken = static_cast<char *>(guard_alloc(size));
                if (queue.empty()) {
                    ASSERT_EQ(taken, nullptr);
                    break;
                }
                const uint64_t end = range + (2 * (uint64_t)queue.front() + 2) * page;
                ASSERT_EQ((uint64_t)(uintptr_t)taken, end - (size + 15) / 16 * 16);
                ASSERT_TRUE(test::is_zero(taken, size));
                memset(taken, 0xa5, size);
                slots[queue.front()] = {(uint64_t)(uintptr_t)taken, size, true};
                queue.pop_front();
                sampled++;
                break;
            }
            case 1:
                if (!slot.is_live) break;
                guard_free(block());
                slot.is_live = false;
                queue.push_back(index);
                break;
            case 2:
                if (!slot.is_live) break;
                ASSERT_EQ(guard_resize(block(), size), (size + 15) / 16 * 16 == rounded);
                if ((size + 15) / 16 * 16 == rounded) slot.size = size;
                break;
            default:
                ASSERT_NO_FATAL_FAILURE(expect_known(slots, range, range + rng.below((2 * SLOTS + 1) * page)));
                if (slot.start != 0) expect_known(slots, range, slot.start + rng.below(2) * slot.size);
            }
            if (slot.start != 0) ASSERT_EQ(guard_usable_size(block()), slot.is_live ? (slot.size + 15) / 16 * 16 : 0u);
            const struct guard_figures figures = guard_figures();
            ASSERT_EQ(figures.sampled, sampled);
            ASSERT_EQ(figures.live, SLOTS - queue.size());
        }
        guard_history none;
        EXPECT_FALSE(guard_find(range - 1, &none) || guard_find(range + (2 * SLOTS + 1) * page, &none));
    });
}
