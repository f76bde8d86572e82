// frame_law_test.cc: the law of frames in random histories: what the program gets is what it asked for, in the heap that it asked
// for; a report says of each byte of a frame or of a freed block what it is.
#include "debug/frame_test_support.h"

#include <algorithm>
#include <set>

extern "C" {
#include "debug/fault/sealed.h"
#include "heap/heap.h"
#include "heap/own_inside.h"
#include "report/failfast.h"
#include "report/settings.h"
}

namespace test::frames {

class FrameLaw : public FrameTest {
  protected:
    struct Held {
        char *user;
        size_t size, align;
        frame_family family;
        hak_heap *heap;
        uint64_t stamp;
    };

    void SetUp() override
    {
        FrameTest::SetUp();
        failfast_level_read = LEVEL_TRACES;
        failfast_goes_on_read = 1;
        sealed_start();
        for (hak_heap *&heap : heaps_) heap = hak_heap_new();
    }
    void TearDown() override
    {
        while (!held_.empty()) free_one();
        for (hak_heap *heap : heaps_) hak_heap_destroy(heap);
        own_dead_free_all();
        quarantine_empty();
        failfast_level_read = LEVEL_LAYOUT;
        failfast_goes_on_read = 0;
        failfast_fill_read = -1;
        sealed_start(); // off, at this level
        FrameTest::TearDown();
    }

    Held &any() { return held_[rng_.below(held_.size())]; }
    hak_heap *draw_heap() { return rng_.below(2) == 0 ? nullptr : heaps_[rng_.below(2)]; }
    size_t draw_size() { return rng_.below(40) == 0 ? rng_.below(300000) : rng_.below((size_t)2 << rng_.below(13)); }

    framed frame_of(const Held &held)
    {
        framed frame{};
        const lookup at = heap_lookup(held.user);
        EXPECT_TRUE(frame_read(&at, held.user, &frame));
        return frame;
    }
    static bool holds(const Held &held, size_t bytes) { return pattern_holds(held.user, bytes, held.stamp, 1); }

    // One report of this kind, which says this.
    template <typename Call> void expect_report(const std::string &kind, const std::string &says, Call call)
    {
        testing::internal::CaptureStderr();
        call();
        const std::string text = testing::internal::GetCapturedStderr();
        ASSERT_NE(text.find("hakmem: failfast: " + kind + ":"), std::string::npos) << text;
        ASSERT_NE(text.find(says), std::string::npos) << text << "lacks: " << says;
        ASSERT_EQ(text.find("hakmem: failfast: ", text.find("hakmem: failfast: ") + 1), std::string::npos) << text;
        reports_++;
    }

    // --- what is done ---------------------------------------------------------------------------------------------

    void keep(Held held, size_t had_bytes)
    {
        const lookup at = heap_lookup(held.user);
        ASSERT_EQ(own_of(at.start), held.heap);
        ASSERT_EQ(frame_usable_size(held.user), held.size);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(held.user) % std::max<size_t>(held.align, 16), 0u);
        if (failfast_fill_read >= 0 && had_bytes < held.size)
            ASSERT_EQ(
                frame_first_other(held.user + had_bytes, held.size - had_bytes, (unsigned char)failfast_fill_read),
                held.size - had_bytes);
        freed_.erase(freed_.lower_bound(at.start), freed_.lower_bound(at.start + at.bytes));
        pattern_fill(held.user, held.size, held.stamp = rng_.next(), 1);
        held_.push_back(held);
    }
    void alloc()
    {
        Held held{nullptr,       draw_size(), rng_.below(3) == 0 ? (size_t)1 << rng_.below(15) : 0,
                  FAMILY_MALLOC, draw_heap(), 0};
        const bool zero = rng_.below(3) == 0;
        if (!held_.empty() && rng_.below(4) == 0) held = any(); // the same again
        else if (held.heap == nullptr && !zero) held.family = static_cast<frame_family>(rng_.below(3));
        if (zero) held.family = FAMILY_MALLOC;
        held.user = static_cast<char *>(held.heap != nullptr ? frame_alloc_in(held.heap, held.align, held.size, zero)
                                                             : frame_alloc(held.family, held.align, held.size, zero));
        ASSERT_NE(held.user, nullptr);
        if (zero) ASSERT_EQ(frame_first_other(held.user, held.size, 0), held.size);
        keep(held, zero ? held.size : 0);
    }
    void resize()
    {
        std::swap(any(), held_.back());
        Held held = held_.back();
        if (held.family != FAMILY_MALLOC) return;
        held_.pop_back();
        const size_t old_bytes = held.size;
        hak_heap *const to = rng_.below(2) == 0 ? nullptr : draw_heap();
        held.size = 1 + (rng_.below(2) == 0 ? draw_size() : rng_.below(2 * old_bytes + 1));
        char *const user = static_cast<char *>(to != nullptr ? frame_realloc_in(to, held.user, held.size)
                                                             : frame_realloc(held.user, held.size));
        ASSERT_NE(user, nullptr);
        if (user != held.user) held.align = 0;
        if (user != held.user) freed_.insert(held.user);
        held.user = user;
        if (to != nullptr) held.heap = to;
        const size_t kept = std::min(old_bytes, held.size);
        ASSERT_TRUE(holds(held, kept)) << old_bytes << " to " << held.size << " bytes";
        keep(held, kept);
    }
    static void free_said(const Held &held, bool has_size)
    {
        const bool has_align = held.align != 0 && held.family != FAMILY_MALLOC;
        frame_free(held.user, {held.family, has_size, has_align, has_size ? held.size : 0, has_align ? held.align : 0});
    }
    void free_one()
    {
        std::swap(any(), held_.back());
        const Held held = held_.back();
        held_.pop_back();
        ASSERT_TRUE(holds(held, held.size));
        const framed frame = frame_of(held);
        free_said(held, rng_.below(2) == 0);
        freed_.insert(held.user);
        if (held.heap != nullptr) ASSERT_FALSE(quarantine_holds(frame.start)) << "a block of an arena waits";
        if (frame.bytes > QUARANTINE_BLOCK_BYTES_MAX) waited_ += quarantine_holds(frame.start); // without access
        if (!quarantine_holds(frame.start) || frame.bytes > QUARANTINE_BLOCK_BYTES_MAX) return;
        ASSERT_EQ(frame_first_other(held.user, held.size, FRAME_JUNK), held.size);
        if (rng_.below(4) == 0) write_after_free(frame);
    }
    // Any byte of the heap's block, but those that no frame checks.
    void write_after_free(const framed &frame)
    {
        const ptrdiff_t offset = draw_offset(frame, true);
        if (reports_ >= REPORTS_MAX) return;
        frame.user[offset] ^= 0x11;
        if (offset >= 0 && offset < (ptrdiff_t)frame.word.size_bytes)
            ASSERT_EQ(frame_changed_count(&frame, offset, true), 1u);
        expect_report("write_after_free",
                      "offset " + std::to_string(offset) + " of " + std::to_string(frame.word.size_bytes),
                      quarantine_sweep);
        testing::internal::CaptureStderr();
        quarantine_sweep();
        ASSERT_EQ(testing::internal::GetCapturedStderr(), "") << "it is reported once";
    }
    void free_again()
    {
        if (freed_.empty() || reports_ >= REPORTS_MAX) return;
        auto at = freed_.begin();
        std::advance(at, rng_.below(freed_.size()));
        const lookup place = heap_lookup(*at);
        if (place.kind == RECORD_KIND_none || place.kind == RECORD_KIND_free)
            return; /* its memory is another's, or nobody's */
        if (place.start == nullptr || (place.live && !quarantine_holds(place.start))) return;
        expect_report("double_free", "", [&] { release(*at); });
    }
    // What the program says of a block is not so: a report, and the block stays.
    void free_wrong()
    {
        if (reports_ >= REPORTS_MAX) return;
        const Held held = any();
        const auto other = static_cast<frame_family>((held.family + 1 + rng_.below(2)) % 3);
        switch (rng_.below(3)) {
        case 0: expect_report("mismatched_delete", "", [&] { release(held.user, other); }); break;
        case 1:
            if (held.align != 0) break;
            expect_report("wrong_size", std::to_string(held.size + 1),
                          [&] { frame_free(held.user, {held.family, true, false, held.size + 1, 0}); });
            break;
        default:
            if (held.size < 64) break;
            expect_report("interior_pointer", "", [&] { release(held.user + 32, held.family); });
        }
        ASSERT_TRUE(holds(held, held.size));
    }

    // --- what holds -------------------------------------------------------------------------------------------------

    // A byte that counts: of the fill before the block, its word and check, the block (if it is free), the canary, the copy.
    ptrdiff_t draw_offset(const framed &frame, bool is_freed)
    {
        const auto size = (ptrdiff_t)frame.word.size_bytes, start = frame.start - frame.user,
                   end = frame.start + (ptrdiff_t)frame.bytes - frame.user;
        const ptrdiff_t fill = std::max(start, (ptrdiff_t)-FRAME_FRONT_BYTES - FRAME_FILL_MAX),
                        rear = std::min(end - 8, size + FRAME_FILL_MAX);
        switch (rng_.below(is_freed && size > 0 ? 5 : 4)) {
        case 0: return fill + (ptrdiff_t)rng_.below((size_t)-fill);
        case 1: return (ptrdiff_t)rng_.below(FRAME_FRONT_BYTES) - FRAME_FRONT_BYTES;
        case 2: return size + (ptrdiff_t)rng_.below((size_t)(rear - size));
        case 3: return end - 8 + (ptrdiff_t)rng_.below(8);
        default: return (ptrdiff_t)rng_.below((size_t)size);
        }
    }
    static bool changed(const framed &frame, ptrdiff_t *offset)
    {
        return frame_changed_before(&frame, offset) || frame_changed_after(&frame, offset);
    }
    // Some bytes of one part of a frame are overwritten.
    void overwrite()
    {
        const Held held = any();
        const framed frame = frame_of(held);
        const ptrdiff_t first = draw_offset(frame, false), size = (ptrdiff_t)held.size;
        const ptrdiff_t copy = frame.start + (ptrdiff_t)frame.bytes - 8 - frame.user,
                        rear = std::min(copy, size + FRAME_FILL_MAX);
        const ptrdiff_t end = first < -FRAME_FRONT_BYTES ? -FRAME_FRONT_BYTES
                              : first < 0                ? 0
                              : first < copy             ? rear
                                                         : copy + 8;
        const std::string before(frame.start, frame.bytes);
        uint64_t count = 0;
        for (ptrdiff_t at = first; at < end && count < 20; at += 1 + (ptrdiff_t)rng_.below(30), count++)
            frame.user[at] ^= 1;
        ptrdiff_t found = 0;
        ASSERT_TRUE(changed(frame, &found)) << "offset " << first << " of " << size;
        ASSERT_EQ(found, first) << "of " << size;
        const bool is_counted = first < -FRAME_FRONT_BYTES || (first >= size && first < copy);
        ASSERT_EQ(frame_changed_count(&frame, first, false), is_counted ? count : 0)
            << "offset " << first << " of " << size;
        memcpy(frame.start, before.data(), frame.bytes);
        ASSERT_FALSE(changed(frame, &found));
    }
    // A frame that was copied from another block is wrong.
    void exchange()
    {
        const Held one = any();
        const auto two = std::find_if(held_.begin(), held_.end(), [&](const Held &each) {
            return each.user != one.user && each.size == one.size && each.family == one.family &&
                   each.align == one.align;
        });
        if (two == held_.end()) return;
        const framed frame = frame_of(one), other = frame_of(*two);
        exchanged_++;
        for (const auto &[to, from, bytes] :
             {std::tuple{frame.user - FRAME_FRONT_BYTES, other.user - FRAME_FRONT_BYTES, 16},
              std::tuple{frame.start + frame.bytes - 8, other.start + other.bytes - 8, 8}}) {
            const std::string before(to, (size_t)bytes);
            ptrdiff_t offset;
            memcpy(to, from, (size_t)bytes);
            ASSERT_TRUE(changed(frame, &offset)) << "another block's frame passes for this one's";
            memcpy(to, before.data(), (size_t)bytes);
        }
    }
    // A report that has only an address finds the program's part by the copy.
    void find()
    {
        const Held held = any();
        const lookup at = heap_lookup_any(held.user + held.size / 2);
        framed frame{};
        ASSERT_TRUE(frame_peek(at.start, at.bytes, &frame));
        ASSERT_EQ(frame.user, held.user);
        ASSERT_EQ(frame.word.size_bytes, held.size);
        ASSERT_EQ(frame.word.family, held.family);
        ASSERT_EQ(frame.word.state, FRAME_LIVE);
    }

    static constexpr int REPORTS_MAX = 150;
    test::Rng rng_;
    hak_heap *heaps_[2] = {};
    std::vector<Held> held_;
    std::set<char *> freed_; // those that were not handed out again
    int reports_ = 0, exchanged_ = 0, waited_ = 0;
};

TEST_F(FrameLaw, InAnyHistory)
{
    SKIP_UNDER_SANITIZER("it keeps books of every byte");
    for (int step = 0; step < 6000; step++) {
        SCOPED_TRACE("step " + std::to_string(step));
        if (step % 500 == 0) failfast_fill_read = (int)rng_.below(257) - 1;
        const size_t what = rng_.below(64);
        if (held_.size() < 20 || what < 18) alloc();
        else if (what < 36) free_one();
        else if (what < 48) resize();
        else if (what < 54) overwrite();
        else if (what < 57) exchange();
        else if (what < 59) find();
        else if (what < 60) free_wrong();
        else if (what < 61) free_again();
        else if (what < 62) hak_purge();
        else if (what < 63) quarantine_empty();
        else
            while (held_.size() > 30 && !HasFailure()) free_one();
        ASSERT_FALSE(frame_is_changing());
        ASSERT_EQ(failfast_call_set(nullptr), nullptr);
        if (HasFailure()) return;
    }
    EXPECT_GT(reports_, 80);
    EXPECT_GT(exchanged_, 5);
    EXPECT_GT(waited_, 1);
}

} // namespace test::frames
