// The interpreter on a subject that the test fakes: which function each op calls, and what it notes and counts. This
// program is built as the sanitizer trees are, which call hak_*, and defines those functions itself.
#include "engine/seat/interp.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/seat/interp_for_test.h"

using namespace stress;

extern "C" {
void *hak_malloc(std::size_t size_bytes) noexcept
{
    return answer("malloc(" + std::to_string(size_bytes) + ")", size_bytes);
}
void *hak_calloc(std::size_t count, std::size_t size_bytes) noexcept
{
    std::size_t all = 0;
    return answer("calloc" + two(count, size_bytes), __builtin_mul_overflow(count, size_bytes, &all) ? SIZE_MAX : all);
}
void *hak_realloc(void *old, std::size_t size_bytes) noexcept
{
    return resized("realloc(" + named(old) + "," + std::to_string(size_bytes) + ")", old, size_bytes);
}
void *hak_reallocarray(void *old, std::size_t count, std::size_t size_bytes) noexcept
{
    return resized("reallocarray(" + named(old) + ")" + two(count, size_bytes), old, count * size_bytes);
}
void *hak_aligned_alloc(std::size_t align_bytes, std::size_t size_bytes) noexcept
{
    return answer("aligned_alloc" + two(align_bytes, size_bytes), size_bytes);
}
void *hak_memalign(std::size_t align_bytes, std::size_t size_bytes) noexcept
{
    return answer("memalign" + two(align_bytes, size_bytes), size_bytes);
}
int hak_posix_memalign(void **out, std::size_t align_bytes, std::size_t size_bytes) noexcept
{
    const int before = errno;
    *out = answer("posix_memalign" + two(align_bytes, size_bytes), size_bytes);
    errno = before;
    return fake.error;
}
std::size_t hak_malloc_usable_size(const void *) noexcept
{
    fake.calls += "usable_size ";
    return fake.usable == Fake::kAsGiven ? fake.given : fake.usable;
}
void hak_free(void *start) noexcept
{
    fake.calls += "free(" + named(start) + ") ";
    if (fake.error != 0) errno = fake.error;
}
std::size_t hak_purge() noexcept
{
    return 0;
}
}

namespace stress {
namespace {

struct Asked {
    OpKind kind;
    std::size_t size_bytes;
    std::uint8_t arg;
    const char *call, *without, *plain; // with every function, with malloc and realloc alone, in an unchecked run
    std::size_t bytes, align_bytes;
};
constexpr Asked kAsked[] = {
    {OpKind::Malloc, 100, 0, "malloc(100) ", "malloc(100) ", "malloc(100) ", 100, 0},
    {OpKind::Malloc, 0, 0, "malloc(0) ", "malloc(0) ", "malloc(0) ", 0, 0},
    {OpKind::Calloc, 10, 3, "calloc(3,10) ", "calloc(3,10) ", "calloc(3,10) ", 30, 0},
    {OpKind::AlignedAlloc, 64, 6, "aligned_alloc(64,64) ", "malloc(64) ", "aligned_alloc(64,64) ", 64, 64},
    {OpKind::AlignedAlloc, 40, 1, "aligned_alloc(8,40) ", "malloc(40) ", "aligned_alloc(8,40) ", 40, 8},
    {OpKind::PosixMemalign, 40, 3, "posix_memalign(8,40) ", "malloc(40) ", "posix_memalign(8,40) ", 40, 8},
    {OpKind::Memalign, 40, 12, "memalign(4096,40) ", "malloc(40) ", "memalign(4096,40) ", 40, 4096},
    {OpKind::Memalign, 40, 2, "memalign(8,40) ", "malloc(40) ", "memalign(8,40) ", 40, 8},
    {OpKind::Realloc, 40, 0, "realloc(null,40) ", "realloc(null,40) ", "malloc(40) ", 40, 0},
    {OpKind::ReallocArray, 10, 4, "reallocarray(null)(4,10) ", "realloc(null,40) ", "malloc(40) ", 40, 0},
};

TEST_F(InterpTest, EachKindAsksForItsBlock)
{
    std::uint32_t made = 0;
    std::uint64_t bytes = 0;
    Interp bare(shared, counters, kNone, 1, true);
    bare.trace = &trace;
    for (const Asked &asked : kAsked) {
        const Op op = op_make(asked.kind, 0, asked.size_bytes, asked.arg);
        const OpKind counts_as = asked.call[0] == 'r' ? OpKind::Malloc : asked.kind;
        const std::uint64_t before = judged(counts_as);
        EXPECT_EQ(apply(checked, op), std::string(asked.call) + "usable_size Done Given");
        EXPECT_EQ(judged(counts_as), before + 1);
        ++made;
        bytes += asked.bytes;
        EXPECT_EQ(block().start, memory + 4096);
        EXPECT_EQ(block().size_bytes, asked.bytes);
        EXPECT_EQ(block().align_bytes, asked.align_bytes) << asked.call;
        EXPECT_EQ(generation_seat(block().generation), 1u);
        EXPECT_EQ(generation_op(block().generation), read(counters.ops));
        EXPECT_TRUE(content_holds(block().start, asked.bytes, asked.bytes, block().generation));
        EXPECT_EQ(apply(OpKind::Free, 0), "free(block) Done Freed");
        EXPECT_EQ(block().start, nullptr);
        std::memset(memory + 4096, 0, 256);

        EXPECT_EQ(apply(bare, op), std::string(asked.without) + "Done Given") << "and no usable size";
        EXPECT_EQ(block().align_bytes, 0u);
        EXPECT_EQ(apply(bare, op_make(OpKind::FreeSized, 0)), "free(block) Done Freed");
        std::memset(memory + 4096, 0, 256);

        EXPECT_EQ(apply(plain, op), std::string(asked.plain) + "Done");
        EXPECT_EQ(block().size_bytes, asked.bytes);
        EXPECT_EQ(memory[4096], asked.bytes != 0) << "one byte is touched";
        EXPECT_EQ(run_plain(OpKind::FreeSized, 0), "free(block) Done");
        EXPECT_EQ(block().start, nullptr);
        memory[4096] = 0;
    }
    const std::string all = std::to_string(2 * made) + " ", all_bytes = std::to_string(2 * bytes) + " ";
    EXPECT_EQ(counted(counters), std::to_string(4 * made) + " " + all + all_bytes + all + all_bytes + "0 0 " +
                                     std::to_string(4 * made) + " ");
    const std::string half = std::to_string(made) + " ", half_bytes = std::to_string(bytes) + " ";
    EXPECT_EQ(counted(plain_counters), all + half + half_bytes + half + half_bytes + "0 0 0 ");
    EXPECT_EQ(rule(), "");
}

TEST_F(InterpTest, EachKindFreesWhatItMay)
{
    const auto freed = [this](OpKind kind, bool aligned) {
        if (aligned) apply(OpKind::Memalign, 0, 100, 6);
        else apply(OpKind::Malloc, 0, 100);
        const std::string text = apply(kind, 0);
        EXPECT_EQ(judged(kind), 1u + aligned);
        return text;
    };
    EXPECT_EQ(freed(OpKind::Free, false), "free(block) Done Freed");
    EXPECT_EQ(freed(OpKind::Free, true), "free(block) Done Freed");
    EXPECT_EQ(freed(OpKind::FreeSized, false), "free_sized(block,100) Done Freed");
    EXPECT_EQ(freed(OpKind::FreeSized, true), "free(block) Done Freed");
    EXPECT_EQ(freed(OpKind::FreeAlignedSized, false), "free(block) Done Freed");
    EXPECT_EQ(freed(OpKind::FreeAlignedSized, true), "free_aligned_sized(block)(64,100) Done Freed");
}

TEST_F(InterpTest, WhatHasNothingToDoIsSkipped)
{
    for (const OpKind kind : {OpKind::Free, OpKind::FreeSized, OpKind::FreeAlignedSized, OpKind::UsableSize,
                              OpKind::Check, OpKind::Purge, OpKind::Sleep}) {
        EXPECT_EQ(apply(kind, 0), "Done Skipped");
        EXPECT_EQ(run_plain(kind, 0), "Done");
    }
    EXPECT_EQ(apply(OpKind::Realloc, 0, 0), "Done Skipped");
    EXPECT_EQ(apply(OpKind::ReallocArray, 0, 5, 0), "Done Skipped");
    apply(OpKind::Malloc, 0, 100);
    for (const OpKind kind :
         {OpKind::Malloc, OpKind::Calloc, OpKind::AlignedAlloc, OpKind::PosixMemalign, OpKind::Memalign}) {
        EXPECT_EQ(apply(kind, 0, 50), "Done Skipped");
        EXPECT_EQ(run_plain(kind, 0, 50), "Done");
    }
    EXPECT_EQ(run_plain(OpKind::Realloc, 0, 0), "Done") << "it may free";
    for (const OpKind kind : {OpKind::UsableSize, OpKind::Check}) EXPECT_EQ(run_plain(kind, 0), "Done");
    EXPECT_EQ(counted(counters), "15 1 100 0 0 0 0 1 ");
    EXPECT_EQ(counted(plain_counters), "15 0 0 0 0 0 0 0 ");
    EXPECT_EQ(apply(OpKind::UsableSize, 0), "usable_size Done Skipped");
    EXPECT_EQ(apply(OpKind::Check, 0), "Done Skipped");
    EXPECT_EQ(judged(OpKind::UsableSize) + judged(OpKind::Check), 2u);
}

TEST_F(InterpTest, ReallocMovesWhatItHolds)
{
    apply(OpKind::Malloc, 0, 100);
    fake.at = 8192;
    EXPECT_EQ(apply(OpKind::Realloc, 0, 80), "realloc(block,80) usable_size Done Given");
    EXPECT_EQ(block().start, memory + 8192);
    EXPECT_EQ(block().size_bytes, 80u);
    EXPECT_EQ(judged(OpKind::Realloc), 1u);
    fake.at = 4096;
    EXPECT_EQ(apply(OpKind::ReallocArray, 0, 30, 3), "reallocarray(block)(3,30) usable_size Done Given");
    EXPECT_EQ(judged(OpKind::ReallocArray), 1u);
    EXPECT_EQ(counted(counters), "3 1 270 0 180 0 0 3 ");
    EXPECT_EQ(apply(OpKind::Free, 0), "free(block) Done Freed");

    run_plain(OpKind::Malloc, 1, 100);
    fake.at = 8192;
    EXPECT_EQ(run_plain(OpKind::Realloc, 1, 80), "realloc(block,80) Done");
    EXPECT_EQ(block(1).start, memory + 8192);
    EXPECT_EQ(block(1).size_bytes, 80u);
    EXPECT_EQ(counted(plain_counters), "2 1 180 0 100 0 0 0 ");
    EXPECT_EQ(rule(), "");
}

TEST_F(InterpTest, UncheckedRunsTouchEachPage)
{
    plain.touches_pages = true;
    const auto touched = [](std::size_t page) { return memory[(1 << 20) + page * 4096] != 0; };
    std::memset(memory + (1 << 20), 0, 40960);
    fake.at = 1 << 20;
    run_plain(OpKind::Malloc, 0, 8193);
    EXPECT_TRUE(touched(0) && touched(1) && touched(2));
    EXPECT_FALSE(touched(3));
    run_plain(OpKind::Realloc, 0, 16384);
    EXPECT_TRUE(memory[(1 << 20) + 8193 + 4096] != 0) << "each page after what it had";
    EXPECT_FALSE(memory[(1 << 20) + 8193 + 2 * 4096] != 0);
    run_plain(OpKind::Free, 0);
    std::memset(memory + (1 << 20), 0, 40960);
    run_plain(OpKind::Memalign, 0, 8192, 12);
    EXPECT_TRUE(touched(0) && touched(1));
    EXPECT_FALSE(touched(2));
    run_plain(OpKind::Free, 0);
    std::memset(memory + (1 << 20), 0, 40960);
    run_plain(OpKind::Calloc, 0, 8193, 1);
    EXPECT_TRUE(touched(0));
    EXPECT_FALSE(touched(1)) << "calloc gives zeros, which need no page";
    run_plain(OpKind::Free, 0);
    std::memset(memory + (1 << 20), 0, 40960);
    plain.touch_next(8192);
    run_plain(OpKind::Calloc, 0, 12288, 1);
    EXPECT_TRUE(touched(0) && touched(1)) << "what the seat asks for";
    EXPECT_FALSE(touched(2));
    std::memset(memory + (1 << 20), 0, 40960);
    run_plain(OpKind::Free, 0);
    plain.touches_pages = false;
    run_plain(OpKind::Malloc, 0, 40960);
    EXPECT_FALSE(touched(1));
}

// One call in 61 is timed, of those that are made.
TEST_F(InterpTest, LatenciesAreKeptByCall)
{
    for (Interp *interp : {&checked, &plain}) {
        Latency latency;
        interp->latency = &latency;
        interp->trace = nullptr;
        constexpr std::uint64_t rounds = 10 * Latency::kPeriod;
        for (std::uint64_t i = 0; i < rounds; ++i) {
            interp->apply(op_make(OpKind::Malloc, 0, 10));
            interp->apply(op_make(OpKind::Realloc, 0, 20));
            interp->apply(op_make(OpKind::Free, 0));
            interp->apply(op_make(OpKind::Memalign, 0, 10, 6));
            interp->apply(op_make(OpKind::Free, 0));
        }
        EXPECT_EQ(latency.count(Latency::Malloc), 20u);
        EXPECT_EQ(latency.count(Latency::Realloc), 10u);
        EXPECT_EQ(latency.count(Latency::Free), 20u);
        EXPECT_GT(latency.max(Latency::Malloc), 0u);
        EXPECT_LT(latency.percentile(Latency::Free, 0.5), latency_ticks());
        interp->latency = nullptr;
    }
    EXPECT_EQ(rule(), "");
}

// The op waits for the one before it on its slot, and hands its block on.
TEST_F(InterpTest, LinkedOpsTakeTurns)
{
    Counters other_counters;
    Interp other(shared, other_counters, kAll, 2, true);
    EXPECT_EQ(apply(checked, op_make(OpKind::Malloc, 3, 100, 0, 1)), "malloc(100) usable_size Done Given");
    EXPECT_EQ(slots.turns[3].load(), 1u);
    EXPECT_EQ(apply(checked, op_make(OpKind::Check, 3, 0, 0, 2)), "Done Skipped");
    EXPECT_EQ(read(counters.handed_over), 0u) << "it was its own";
    std::thread waiting([&] { EXPECT_EQ(other.apply(op_make(OpKind::Free, 3, 0, 0, 4)), Applied::Done); });
    while (other.waits_for() == 0) std::this_thread::yield();
    EXPECT_EQ(other.waits_for(), 3u << 16 | 4u);
    EXPECT_EQ(apply(checked, op_make(OpKind::Check, 3, 0, 0, 3)), "Done Skipped");
    waiting.join();
    EXPECT_EQ(other.waits_for(), 0u);
    EXPECT_EQ(slots.turns[3].load(), 4u);
    EXPECT_EQ(read(other_counters.handed_over), 1u);
    EXPECT_EQ(block(3).start, nullptr);
    other.apply(op_make(OpKind::Free, 3, 0, 0, 5));
    EXPECT_EQ(read(other_counters.handed_over), 1u) << "the slot was empty";
    apply(OpKind::Malloc, 4, 100);
    other.apply(op_make(OpKind::Check, 4));
    EXPECT_EQ(read(other_counters.handed_over), 1u) << "nothing links them";

    memory[4096] ^= 1;
    EXPECT_EQ(other.apply(op_make(OpKind::Check, 4, 0, 0, 1)), Applied::Failed);
    EXPECT_EQ(slots.turns[4].load(), 1u) << "others must not wait for it";
    stop = true;
    EXPECT_EQ(apply(checked, op_make(OpKind::Check, 3, 0, 0, 9)), "Waiting");
    EXPECT_EQ(checked.waits_for(), 0u);
    EXPECT_EQ(slots.turns[3].load(), 5u);
    slots.turns[3] = 65535;
    EXPECT_TRUE(Interp::in_turn(slots, 3, 1));
    EXPECT_FALSE(Interp::in_turn(slots, 3, 0));
}

TEST_F(InterpTest, ASweepFreesWhatIsLeft)
{
    EXPECT_TRUE(checked.sweep(0) && plain.sweep(0));
    EXPECT_EQ(counted(counters), "0 0 0 0 0 0 0 0 ");
    apply(OpKind::Malloc, 0, 100);
    EXPECT_TRUE(checked.sweep(0));
    EXPECT_EQ(counted(counters), "2 1 100 1 100 0 0 2 ");
    run_plain(OpKind::Malloc, 0, 100);
    EXPECT_TRUE(plain.sweep(0));
    EXPECT_EQ(counted(plain_counters), "2 1 100 1 100 0 0 0 ");
    apply(OpKind::Malloc, 0, 100);
    memory[4096] ^= 1;
    EXPECT_FALSE(checked.sweep(0));
}

// In reports: the block that the op in hand found.
TEST_F(InterpTest, TheBlockInHand)
{
    apply(OpKind::Malloc, 0, 100);
    const Op op = op_make(OpKind::Free, 0);
    EXPECT_EQ(plain.block_of(op), &block());
    checked.apply(op);
    ASSERT_NE(checked.block_of(op), nullptr);
    EXPECT_EQ(checked.block_of(op)->start, memory + 4096);
    EXPECT_EQ(checked.block_of(op_make(OpKind::Purge, 0)), nullptr);
    EXPECT_EQ(checked.block_of(op_make(OpKind::Free, 8)), nullptr);
    EXPECT_NE(checked.block_of(op_make(OpKind::Free, 7)), nullptr);
}

} // namespace
} // namespace stress
