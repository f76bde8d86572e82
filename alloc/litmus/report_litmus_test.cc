// report_litmus_test.cc: report/failfast.c between threads. With HAKMEM_FAILFAST=report, so that the process survives
// reports.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "debug/frame.h"
#include "hakmem/hakmem.h"
#include "report/failfast.h"
#include "report/settings.h"
}

class LitmusReport : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(failfast_goes_on()) << "run it with HAKMEM_FAILFAST=report"; }
};

// A report's end (release of the buffer) and the next thread's report (acquire): the buffer.
TEST_F(LitmusReport, TheBuffer)
{
    void *block = hak_malloc(1); // a block that is found at once: a long search would fill the sanitizer's history
    auto tell = [&] { failfast_refused(FAILFAST_double_free, block, "of a test: two threads report in turn"); };
    testing::internal::CaptureStderr();
    litmus::in_order({tell, tell});
    std::string told = testing::internal::GetCapturedStderr();
    hak_free(block);
    size_t first = told.find("hakmem: failfast: double_free");
    ASSERT_NE(first, std::string::npos) << told;
    EXPECT_NE(told.find("hakmem: failfast: double_free", first + 1), std::string::npos) << told;
}

// The thread that allocates the first framed block sets the hook that explains blocks, while another thread writes a
// report.
TEST_F(LitmusReport, WhoExplains)
{
    void *block = hak_malloc(1), *framed = nullptr;
    testing::internal::CaptureStderr();
    litmus::in_order({
        [&] { failfast_refused(FAILFAST_double_free, block, "of a test: another thread allocates"); },
        [&] { framed = frame_alloc(FAMILY_MALLOC, 0, 100, false); },
    });
    EXPECT_NE(testing::internal::GetCapturedStderr().find("hakmem: failfast: double_free"), std::string::npos);
    frame_free(framed, {FAMILY_MALLOC, false, false, 0, 0});
    hak_free(block);
}
