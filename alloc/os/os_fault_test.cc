// os_fault_test.cc: the faults that other tests rely on are injected, and counted.
#include "base/test_support.h"

extern "C" {
#include "base/config.h"
#include "os/os.h"
#include "os/os_fault.h"
}

namespace {

const os_ops *real; // the table without faults

// Makes the six calls in turn; bit i of the result says that call i failed.
unsigned call_all()
{
    unsigned failed = 0;
    char *start = static_cast<char *>(os->reserve(nullptr, PAGE_BYTES, PAGE_BYTES));
    if (start == nullptr) {
        failed |= 1;
        start = static_cast<char *>(real->reserve(nullptr, PAGE_BYTES, PAGE_BYTES));
    }
    if (int error = os->commit(start, PAGE_BYTES); error != 0) {
        EXPECT_EQ(error, ENOMEM);
        failed |= 2;
        EXPECT_EQ(real->commit(start, PAGE_BYTES), 0);
    }
    *start = 1;
    if (os->purge(start, PAGE_BYTES) != 0) {
        EXPECT_EQ(*start, 1) << "a purge that fails leaves the content";
        failed |= 4;
    }
    if (os->grow(start, PAGE_BYTES, PAGE_BYTES) != 0) failed |= 8;
    void *target = real->reserve(nullptr, PAGE_BYTES, PAGE_BYTES);
    if (os->move(start, PAGE_BYTES, target, PAGE_BYTES) != 0) {
        failed |= 16;
        EXPECT_EQ(real->release(target, PAGE_BYTES), 0);
        target = start;
    }
    if (os->release(target, PAGE_BYTES) != 0) {
        failed |= 32;
        EXPECT_EQ(real->release(target, PAGE_BYTES), 0);
    }
    return failed;
}

class OsFault : public testing::Test {
  protected:
    void SetUp() override { real = os; }
};

} // namespace

TEST_F(OsFault, NoneFailsButAllAreCounted)
{
    os_fault_install(0, false);
    EXPECT_EQ(call_all(), 0u);
    EXPECT_EQ(os_fault_failures(), 0u);
    EXPECT_EQ(os_fault_remove(), 6u);
    EXPECT_EQ(os, real);
    EXPECT_EQ(call_all(), 0u);
}

TEST_F(OsFault, TheNthFailsOnce)
{
    for (unsigned nth = 1; nth <= 6; nth++) {
        os_fault_install(nth, false);
        EXPECT_EQ(call_all(), 1u << (nth - 1));
        EXPECT_EQ(call_all(), 0u);
        EXPECT_EQ(os_fault_failures(), 1u);
        EXPECT_EQ(os_fault_remove(), 12u);
    }
    os_fault_install(7, false);
    EXPECT_EQ(call_all(), 0u);
    EXPECT_EQ(os_fault_failures(), 0u);
    os_fault_remove();
}

TEST_F(OsFault, TheNthAndAllBehindItFail)
{
    for (unsigned nth = 1; nth <= 6; nth++) {
        os_fault_install(nth, true);
        EXPECT_EQ(call_all(), 63u & ~((1u << (nth - 1)) - 1));
        EXPECT_EQ(call_all(), 63u);
        EXPECT_EQ(os_fault_failures(), 6 - (nth - 1) + 6);
        os_fault_remove();
        EXPECT_EQ(call_all(), 0u);
    }
}
