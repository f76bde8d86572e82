#include "engine/op/mix.h"

#include <gtest/gtest.h>

#include <cstring>

namespace stress {
namespace {

TEST(Mix, DrawsOnlyValidRequests)
{
    for (bool strict : {false, true}) {
        Rng rng(7, 0);
        bool equal_seen = false;
        for (int i = 0; i < 20000; ++i) {
            const Op op = mix_allocate(mix_swarm(rng, strict), rng, 5, 16, 1024);
            const std::size_t size_bytes = op_size(op), align_bytes = op_align(op);
            ASSERT_EQ(op.slot, 5u);
            ASSERT_EQ(op.link, 0u);
            ASSERT_GE(size_bytes, 16u);
            if (op.kind == OpKind::Malloc || op.kind == OpKind::Calloc) {
                ASSERT_LE(size_bytes, 1024u);
                ASSERT_EQ(op.arg, op.kind == OpKind::Calloc ? 1 : 0);
                continue;
            }
            ASSERT_TRUE(op.kind == OpKind::AlignedAlloc || op.kind == OpKind::PosixMemalign ||
                        op.kind == OpKind::Memalign);
            ASSERT_GE(align_bytes, 16u);
            ASSERT_LE(align_bytes, 4096u);
            const std::size_t times = size_bytes % align_bytes == 0 ? size_bytes / align_bytes : 0;
            if (op.kind == OpKind::AlignedAlloc) {
                ASSERT_GT(times, 0u);
            }
            const bool power_of_two = times > 0 && (times & (times - 1)) == 0;
            if (!strict && align_bytes >= 256) {
                ASSERT_FALSE(power_of_two) << align_bytes << " " << size_bytes;
            }
            equal_seen |= size_bytes == align_bytes && align_bytes >= 256;
        }
        EXPECT_EQ(equal_seen, strict);
    }
}

TEST(Mix, SwarmSwitchesKindsOffButNeverMalloc)
{
    bool calloc_off = false, calloc_on = false;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
        Rng rng(seed, 0);
        const Mix mix = mix_swarm(rng, false);
        EXPECT_GT(mix.kind_weights[0], 0u);
        (mix.kind_weights[1] == 0 ? calloc_off : calloc_on) = true;
    }
    EXPECT_TRUE(calloc_off && calloc_on);
}

// A seed that a build printed draws the same ops on later ones.
TEST(Mix, TheDrawsOfTheseSeedsStay)
{
    std::uint64_t digest = 0;
    for (const bool strict : {false, true})
        for (std::uint64_t seed = 0; seed < 50; ++seed) {
            Rng rng(seed, 3);
            const Mix mix = mix_swarm(rng, strict);
            for (std::uint32_t weight : mix.kind_weights) digest = digest * 31 + weight;
            digest = digest * 31 + mix.realloc_percent * 2 + mix.strict;
            for (std::uint32_t i = 0; i < 200; ++i)
                for (const Op &op : {mix_allocate(mix, rng, i, 1, 5000), mix_visit_live(mix, rng, i, 1, 5000)}) {
                    std::uint64_t words[2];
                    std::memcpy(words, &op, sizeof op);
                    digest = (digest * 31 + words[0]) * 31 + words[1];
                }
        }
    EXPECT_EQ(digest, 17793083485095976554u);
}

TEST(Mix, MixesTogetherHaveEveryKind)
{
    Rng rng(5, 0);
    for (int round = 0; round < 100; ++round) {
        Mix mixes[3] = {mix_malloc_only(), mix_malloc_only(), mix_malloc_only()};
        mix_complete(mixes, rng);
        for (std::size_t kind = 0; kind < Mix::kKinds; ++kind)
            EXPECT_EQ(mixes[0].kind_weights[kind] + mixes[1].kind_weights[kind] + mixes[2].kind_weights[kind],
                      kind == 0 ? 3u : 1u);
        const std::uint32_t percent = mixes[0].realloc_percent + mixes[1].realloc_percent + mixes[2].realloc_percent;
        EXPECT_GE(percent, 5u);
        EXPECT_LT(percent, 45u);
        Mix again[3] = {mixes[0], mixes[1], mixes[2]};
        mix_complete(again, rng);
        EXPECT_EQ(std::memcmp(again, mixes, sizeof mixes), 0) << "nothing is missing";
    }
}

TEST(Mix, VisitsFreeOrReallocate)
{
    Rng rng(7, 0);
    Mix mix = mix_malloc_only();
    mix.realloc_percent = 50;
    int reallocs = 0;
    for (int i = 0; i < 1000; ++i) {
        const Op op = mix_visit_live(mix, rng, 3, 100, 200);
        ASSERT_EQ(op.slot, 3u);
        if (op.kind == OpKind::Free) continue;
        ASSERT_EQ(op.kind, OpKind::Realloc);
        ASSERT_GE(op_size(op), 100u);
        ASSERT_LE(op_size(op), 200u);
        ++reallocs;
    }
    EXPECT_GT(reallocs, 400);
    EXPECT_LT(reallocs, 600);
    EXPECT_EQ(mix_visit_live(mix_malloc_only(), rng, 3, 100, 200).kind, OpKind::Free);
}

}  // namespace
}  // namespace stress
