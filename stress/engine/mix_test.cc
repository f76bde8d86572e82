#include "engine/mix.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

TEST(Mix, DrawsOnlyValidRequests)
{
    for (bool strict : {false, true}) {
        Rng rng(7, 0);
        bool equal_seen = false;
        for (int i = 0; i < 20000; ++i) {
            const Request r = mix_draw(mix_swarm(rng, strict), rng, 16, 1024);
            ASSERT_GE(r.size_bytes, 16u);
            const bool aligned = r.kind == Kind::AlignedAlloc || r.kind == Kind::PosixMemalign;
            ASSERT_EQ(aligned, r.align_bytes != 0);
            if (!aligned) {
                ASSERT_LE(r.size_bytes, 1024u);
                continue;
            }
            ASSERT_EQ(r.align_bytes & (r.align_bytes - 1), 0u);
            ASSERT_GE(r.align_bytes, 16u);
            ASSERT_LE(r.align_bytes, 4096u);
            const std::size_t times = r.size_bytes % r.align_bytes == 0 ? r.size_bytes / r.align_bytes : 0;
            if (r.kind == Kind::AlignedAlloc) {
                ASSERT_GT(times, 0u);
            }
            const bool power_of_two = times > 0 && (times & (times - 1)) == 0;
            if (!strict && r.align_bytes >= 256) {
                ASSERT_FALSE(power_of_two) << r.align_bytes << " " << r.size_bytes;
            }
            equal_seen |= r.size_bytes == r.align_bytes && r.align_bytes >= 256;
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

}  // namespace
}  // namespace stress
