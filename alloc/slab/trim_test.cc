// trim_test.cc: slabs with few blocks in use give memory back, and get it again.
#include "heap/heap_test_support.h"

#include <sys/mman.h>

#include <map>
#include <set>

extern "C" {
#include "os/os.h"
#include "slab/slab.h"
#include "slab/trim.h"
#include "superslab/purge.h"
#include "hakmem/validate.h"
}

namespace {

class Trim : public test::HeapTest {
  protected:
    struct Live {
        char *block;
        uint64_t stamp;
    };

    // How many bytes of [start, start + size_bytes) have memory.
    static size_t resident_bytes(const void *start, size_t size_bytes)
    {
        size_t os_bytes = os_page_bytes();
        auto first = (uintptr_t)start & ~(os_bytes - 1);
        size_t pages = ((uintptr_t)start + size_bytes - first + os_bytes - 1) / os_bytes;
        std::vector<unsigned char> there(pages);
        EXPECT_EQ(mincore((void *)first, pages * os_bytes, there.data()), 0);
        size_t bytes = 0;
        for (unsigned char each : there) bytes += (each & 1) * os_bytes;
        return bytes;
    }

    // The same for the pages in which the blocks begin.
    static size_t resident_of(const std::vector<Live> &blocks)
    {
        size_t bytes = 0;
        std::set<uintptr_t> pages;
        for (const Live &each : blocks) pages.insert((uintptr_t)each.block / PAGE_BYTES);
        for (uintptr_t page : pages) bytes += resident_bytes((void *)(page * PAGE_BYTES), PAGE_BYTES);
        return bytes;
    }

    static std::vector<Live> fill(size_t size, size_t count)
    {
        std::vector<Live> blocks;
        for (size_t i = 0; i < count; i++) {
            auto *block = static_cast<char *>(hak_malloc(size));
            EXPECT_NE(block, nullptr);
            test::pattern_fill(block, size, i);
            blocks.push_back({block, i});
        }
        return blocks;
    }

    // Frees all but every step-th; returns those that stay.
    static std::vector<Live> thin_out(const std::vector<Live> &blocks, size_t step)
    {
        std::vector<Live> kept;
        for (size_t i = 0; i < blocks.size(); i++) {
            if (i % step == 0) {
                kept.push_back(blocks[i]);
            } else {
                hak_free(blocks[i].block);
            }
        }
        return kept;
    }

    static void expect_kept(const std::vector<Live> &kept, size_t size)
    {
        for (const Live &each : kept) ASSERT_TRUE(test::pattern_holds(each.block, size, each.stamp)) << size;
    }

    static void free_all(const std::vector<Live> &blocks)
    {
        for (const Live &each : blocks) hak_free(each.block);
    }
};

const size_t BYTES = 4 << 20; // in use at first, of each size

} // namespace

// The smallest blocks fill a page with BLOCKS_MAX of them, and a page has OS_PAGES_MAX pages of the system.
TEST_F(Trim, EverySizeKeepsWhatIsLiveAndComesBack)
{
    // The validating objects try each size; the release objects have the same code without the checks.
    const uint32_t step = test::sanitizer() != nullptr ? 7 : VALIDATE ? 1 : 4;
    for (uint32_t c = 1; c < CLASS_ALIGNED_FIRST; c += step) {
        size_t size = sizeclass_bytes(c), count = BYTES / size;
        std::vector<Live> blocks = fill(size, count);
        std::vector<Live> kept = thin_out(blocks, 64);
        hak_purge();
        ASSERT_EQ(test::inspected().used_blocks, kept.size()) << size;
        expect_kept(kept, size);
        // Allocates everything again: each block comes once, no live block comes, and all bytes can be written.
        std::set<char *> known;
        for (const Live &each : kept) known.insert(each.block);
        std::vector<Live> again = fill(size, count);
        for (const Live &each : again) ASSERT_TRUE(known.insert(each.block).second) << size;
        test::inspected();
        expect_kept(kept, size);
        expect_kept(again, size);
        free_all(again);
        hak_purge(); // trims slabs again that were hollow in part
        expect_kept(kept, size);
        test::inspected();
        free_all(kept);
        test::expect_at_rest();
    }
}

TEST_F(Trim, InAnyOrderAndHalfWay)
{
    test::Rng rng(7);
    for (size_t size : {16u, 48u, 208u, 1000u, 1024u, 1536u, 5000u, 9000u, 32768u}) {
        std::vector<Live> blocks = fill(size, 3 * BYTES / size / 4);
        for (int round = 0; round < test::rounds(6); round++) {
            rng.shuffle(blocks);
            size_t stay = rng.below(blocks.size());
            for (size_t i = stay; i < blocks.size(); i++) hak_free(blocks[i].block);
            blocks.resize(stay);
            if (round % 3 != 0) hak_purge();
            test::inspected();
            expect_kept(blocks, size);
            std::vector<Live> more = fill(size, rng.below(BYTES / size));
            blocks.insert(blocks.end(), more.begin(), more.end());
            expect_kept(blocks, size);
        }
        free_all(blocks);
        test::expect_at_rest();
    }
}

TEST_F(Trim, MemoryGoesBack)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    for (size_t size : {64u, 512u, 1024u, 4096u, 16384u}) {
        std::vector<Live> blocks = fill(size, BYTES / size);
        std::vector<Live> kept = thin_out(blocks, 64 * 1024 / size > 4 ? 64 * 1024 / size : 4);
        size_t before = resident_of(blocks);
        EXPECT_GT(hak_purge(), 0u);
        const owner &own = tcache_self()->heap->owner;
        EXPECT_EQ(own.idle_bytes_kept, owner_idle_bytes(&own)) << "what a trim leaves is no reason for another one";
        // A live block in about each 64 KiB keeps its own pages; the ends cost some more.
        EXPECT_LE(resident_of(blocks), before / 2) << size;
        expect_kept(kept, size);
        free_all(kept);
        test::expect_at_rest();
    }
}

TEST_F(Trim, AHollowSlabIsTrimmedFurther)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    for (size_t size : {64u, 512u}) {
        const size_t each_32_kib = (32 << 10) / size;
        std::vector<Live> blocks = fill(size, BYTES / size), left, kept;
        for (size_t i = 0; i < blocks.size(); i++) {
            if (i % each_32_kib == 0) kept.push_back(blocks[i]);
            else if (i % each_32_kib < each_32_kib / 2) left.push_back(blocks[i]);
            else hak_free(blocks[i].block);
        }
        hak_purge();
        size_t first = resident_of(blocks);
        EXPECT_GE(first, BYTES / 2) << size;
        free_all(left);
        hak_purge();
        EXPECT_LE(resident_of(blocks), first / 2) << size;
        test::inspected();
        expect_kept(kept, size);
        free_all(kept);
        test::expect_at_rest();
    }
}

// So are those behind slabs in the list that have nothing more to give back.
TEST_F(Trim, EachHollowSlabIsTrimmedFurther)
{
    const size_t size = std::max<size_t>(4096, os_page_bytes()); // a block is a page of the system
    if (size > SMALL_BYTES_MAX) GTEST_SKIP() << "no small block is that long";
    std::vector<Live> kept = thin_out(fill(size, BYTES / size), 8); // two in most slabs
    hak_purge();
    const owner &own = tcache_self()->heap->owner;
    const size_t idle_bytes = owner_idle_bytes(&own);
    for (size_t i = 0; i < kept.size(); i++)
        if (i % 4 == 1) hak_free(kept[i].block);
    hak_purge();
    EXPECT_EQ(owner_idle_bytes(&own), idle_bytes);
    for (size_t i = 0; i < kept.size(); i++)
        if (i % 4 != 1) hak_free(kept[i].block);
}

TEST_F(Trim, AHeapThatShrinksTrimsItself)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    hak_purge(); // nothing that was trimmed before is wanted again
    const size_t size = 512;
    std::vector<Live> blocks = fill(size, (64u << 20) / size);
    tcache *self = tcache_self();
    EXPECT_GE(self->heap->owner.used_bytes, 64u << 20);
    std::vector<Live> kept = thin_out(blocks, 64);
    // No call came after the frees. Little is in use or cached, and free memory has been given back.
    EXPECT_LE(self->heap->owner.used_bytes, 24u << 20);
    EXPECT_LE(resident_of(kept), 40u << 20);
    expect_kept(kept, size);
    free_all(kept);
}

TEST_F(Trim, WhereTheSystemTakesNothingBackNothingChanges)
{
    std::vector<Live> blocks = fill(1024, 4096);
    static const os_ops *real;
    static os_ops refusing;
    real = os;
    refusing = *os;
    refusing.purge = [](void *, size_t) { return ENOMEM; };
    os = &refusing;
    std::vector<Live> kept = thin_out(blocks, 64); // trims too
    EXPECT_EQ(hak_purge(), 0u);
    os = real;
    test::inspected();
    for (slab *first = tcache_self()->heap->owner.slabs[64], *s = first; s != nullptr;
         s = s->next == first ? nullptr : s->next)
        EXPECT_FALSE(s->hollow);
    expect_kept(kept, 1024);
    free_all(kept);
}

TEST_F(Trim, WhereTheSystemTakesAPartAndThenRefusesNothingIsLost)
{
    // As madvise does on a mapping whose second half is locked.
    for (size_t size : {64u, 1024u, 3000u, 8192u}) {
        std::vector<Live> blocks = fill(size, BYTES / size);
        std::vector<Live> kept = thin_out(blocks, 64);
        static const os_ops *real;
        static os_ops half;
        real = os;
        half = *os;
        half.purge = [](void *start, size_t size_bytes) {
            memset(start, 0, size_bytes / 2);
            return EINVAL;
        };
        os = &half;
        hak_purge();
        os = real;
        EXPECT_EQ(test::inspected().used_blocks, kept.size());
        std::set<char *> known;
        for (const Live &each : kept) known.insert(each.block);
        std::vector<Live> again = fill(size, BYTES / size);
        for (const Live &each : again) ASSERT_TRUE(known.insert(each.block).second) << size;
        expect_kept(kept, size);
        expect_kept(again, size);
        free_all(again);
        free_all(kept);
        test::expect_at_rest();
    }
}

// Only advance() moves the clock, and calls of os->purge are counted.
class TrimTimes : public Trim {
  protected:
    void SetUp() override
    {
        Trim::SetUp();
        hak_free(hak_malloc(256 * test::MIB)); // a peak that no test reaches: a heap trims when the process grows, too
        now_ms_ = os_now_ms();
        hak_clock_hook = [] { return now_ms_; };
        real_ = os;
        counting_ = *os;
        counting_.purge = [](void *start, size_t size_bytes) {
            calls_++;
            return real_->purge(start, size_bytes);
        };
    }
    void TearDown() override
    {
        hak_clock_hook = nullptr;
        Trim::TearDown();
    }
    static void advance(uint64_t ms) { now_ms_ += ms; }
    template <typename Work> static size_t purges_of(Work work)
    {
        calls_ = 0;
        os = &counting_;
        work();
        os = real_;
        return calls_;
    }
    static size_t purges_of_freeing(const std::vector<Live> &blocks)
    {
        return purges_of([&] { free_all(blocks); });
    }

    static const size_t SIZE = 2048;

  private:
    static inline unsigned long long now_ms_;
    static inline const os_ops *real_;
    static inline os_ops counting_;
    static inline size_t calls_;
};

TEST_F(TrimTimes, SwingsAreTrimmedOnceADelay)
{
    SKIP_WITHOUT_VALIDATE(); // a hook stops the clock
    std::vector<Live> kept;
    for (int round = 0; round < 9; round++) {
        if (round >= 6) advance(PURGE_DELAY_MS); // one delay after the first trim; then one and two after the second
        const size_t calls = purges_of([&] {
            std::vector<Live> blocks;
            for (size_t i = 0; i < (16u << 20) / SIZE; i++) {
                Live one = {static_cast<char *>(hak_malloc(SIZE)), i};
                (round == 0 && i % 32 == 0 ? kept : blocks).push_back(one); // no slab comes to be empty
            }
            free_all(blocks);
        });
        if (round == 0) EXPECT_GT(calls, 0u) << "it did not trim";
        if (round == 6 || round == 8) EXPECT_GT(calls, 0u) << "round " << round << ": it has waited long enough";
        else if (round > 1) EXPECT_EQ(calls, 0u) << "round " << round;
    }
    free_all(kept);
}

TEST_F(TrimTimes, AHeapThatGoesOnShrinkingIsTrimmedAtOnce)
{
    SKIP_WITHOUT_VALIDATE(); // a hook stops the clock
    hak_purge(); // nothing that was trimmed before is wanted again
    advance(PURGE_DELAY_MS);
    std::vector<Live> all = fill(SIZE, (128u << 20) / SIZE), swings, goes_last, kept;
    for (size_t i = 0; i < all.size(); i++) // no slab comes to be empty
        (i % 32 == 0 ? kept : i % 32 < 29 ? swings : goes_last).push_back(all[i]);
    EXPECT_GT(purges_of_freeing(swings), 0u);
    swings = fill(SIZE, swings.size());
    EXPECT_EQ(purges_of_freeing(swings), 0u) << "trimmed memory was wanted again";
    swings = fill(SIZE, swings.size());
    advance(PURGE_DELAY_MS);
    EXPECT_GT(purges_of_freeing(swings), 0u);
    while (slab_trim_is_due(&tcache_self()->heap->owner)) hak_free(hak_malloc(40000)); // the trim's last steps
    EXPECT_EQ(purges_of_freeing(goes_last), 0u) << "the wait is two delays now";
    advance(2 * PURGE_DELAY_MS - 1);
    EXPECT_EQ(purges_of_freeing(fill(SIZE, 1)), 0u);
    advance(1);
    EXPECT_GT(purges_of_freeing(fill(SIZE, (1u << 20) / SIZE)), 0u) << "a slow path makes the trim that was put off";
    free_all(kept);
}

TEST_F(Trim, WithoutADelayTrimmedMemoryThatIsWantedIsTrimmedAgain)
{
    static owner none = {}; // without slabs
    pool_set_purge_delay_ms(0);
    for (int again = 0; again < 8; again++) {
        none.trimmed_is_wanted = true;
        slab_trim_shrunk(&none);
        EXPECT_FALSE(none.trimmed_is_wanted) << "it waits, after " << again;
    }
    pool_set_purge_delay_ms(PURGE_DELAY_MS);
}

class TrimThreads : public Trim {};

TEST_F(TrimThreads, FreeIntoHollowSlabsOfAnother)
{
    for (size_t size : {32u, 700u, 4096u}) {
        std::vector<Live> blocks = fill(size, BYTES / size);
        std::vector<Live> kept = thin_out(blocks, 32);
        hak_purge();
        test::in_threads(3, [&](int which) {
            for (size_t i = (size_t)which; i < kept.size(); i += 3) {
                EXPECT_TRUE(test::pattern_holds(kept[i].block, size, kept[i].stamp));
                hak_free(kept[i].block);
            }
        });
        test::expect_at_rest();
    }
}
