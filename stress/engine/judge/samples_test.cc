#include "engine/judge/samples.h"

#include <gtest/gtest.h>

namespace stress {
namespace {

// However many samples are offered, at most 512 stay, evenly spaced from the first on.
TEST(SampleLog, KeepsEvenlySpacedRows)
{
    for (std::size_t offered : {0u, 1u, 511u, 512u, 513u, 1024u, 1025u, 5000u, 100000u}) {
        SampleLog log;
        for (std::size_t i = 0; i < offered; ++i) log.add({static_cast<double>(i), 0, 0, i});
        ASSERT_LE(log.size(), SampleLog::kRows) << offered;
        ASSERT_GE(log.size(), offered < 512 ? offered : 256) << offered;
        if (log.size() < 2) continue;
        const std::uint64_t stride = log[1].ops - log[0].ops;
        EXPECT_EQ(log[0].ops, 0u);
        for (std::size_t i = 1; i < log.size(); ++i) ASSERT_EQ(log[i].ops - log[i - 1].ops, stride) << offered;
        EXPECT_LT(offered - log[log.size() - 1].ops, stride + 1) << "the last is not far back";
    }
}

}  // namespace
}  // namespace stress
