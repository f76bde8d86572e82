// What the runs of a scenario come to together.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "inject/inject.h"

namespace stress::inject {
namespace {

class InjectTotals : public testing::Test {
  protected:
    InjectTotals()
    {
        settings_.kind = "signals";
        settings_.allocator = "validate";
        settings_.junit_path = testing::TempDir() + "inject-totals-" + std::to_string(getpid()) + ".xml";
    }
    ~InjectTotals() override
    {
        unlink(settings_.junit_path.c_str());
        close(out_);
    }

    std::string junit() const
    {
        std::string text;
        EXPECT_EQ(file_read(settings_.junit_path, text), "");
        return text;
    }

    Settings settings_;
    int out_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
};

// A run that a busy machine does not let end must not hide that another one failed.
TEST_F(InjectTotals, AFailureStaysOneWhereALaterRunIsSkipped)
{
    Totals totals(settings_, out_);
    Outcome failed;
    failed.failure = "overlap: two blocks";
    EXPECT_TRUE(totals.failed({settings_, "mid", Schedule::Os, 400, {}, 2}, failed));
    totals.skipped("mid", "slow: the run did not end");
    totals.skipped("larson", "no signals here");
    EXPECT_EQ(totals.finish(), 1);
    EXPECT_THAT(junit(), testing::HasSubstr("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\""));
    EXPECT_THAT(junit(), testing::HasSubstr("message=\"overlap: two blocks\""));
}

// A shell reads the command as it was given.
TEST_F(InjectTotals, ACommandQuotesTheAllocator)
{
    settings_.allocator = "/a folder/lib.so";
    EXPECT_THAT(task_command({settings_, "mid", Schedule::Os, 400, {}, 2}),
                testing::StartsWith("hakmem-stress inject signals mid --allocator '/a folder/lib.so' --seed "));
}

// Neither a run that did not end in time nor one that made fewer calls than the first ends the search.
TEST(InjectCalls, EachIsMadeToFail)
{
    Outcome failed, slow, none;
    failed.calls = 3;
    failed.failed_calls = 1;
    slow.skip = "slow: the run did not end";
    none.calls = 2;
    EXPECT_FALSE(calls_are_over(failed, 3, 2)) << "it made one more";
    for (const Outcome &outcome : {slow, none}) {
        EXPECT_FALSE(calls_are_over(outcome, 3, 3));
        EXPECT_TRUE(calls_are_over(outcome, 4, 3));
    }
}

} // namespace
} // namespace stress::inject
