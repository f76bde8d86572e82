// Tests the trapped system calls: which fail, which do not, and that the limit of the address space can be lifted. Each
// test runs in a child, because a filter can never be removed.
#include "engine/subject/fault_os.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "engine/base/mapped.h"
#include "engine/subject/inside.h"
#include "engine/subject/scarcity.h"

namespace stress {
namespace {

// Runs `check` in a child with the filter. Returns 0, or the number that a failed check returned.
int in_child(int (*check)(ProcessCounts &))
{
    const pid_t child = fork();
    if (child == 0) {
        static ProcessCounts counts;
        _exit(fault_os_install() ? check(counts) : 100);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 101;
    return WEXITSTATUS(status);
}

bool maps()
{
    errno = 0;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    *static_cast<volatile char *>(page) = 1;
    inside_subject = false;
    munmap(page, 4096);
    inside_subject = true;
    return true;
}

#define REQUIRE(condition) \
    if (!(condition)) return __LINE__ % 97 + 1

class FaultOs : public testing::Test {
    void SetUp() override
    {
        if (!fault_os_refusal().empty()) GTEST_SKIP() << fault_os_refusal();
    }
};

TEST_F(FaultOs, FailsTheNthCallOnce)
{
    EXPECT_EQ(in_child([](ProcessCounts &counts) {
                  fault_os_arm(counts, 3, false);
                  inside_subject = true;
                  REQUIRE(maps() && maps());
                  REQUIRE(!maps() && errno == ENOMEM);
                  REQUIRE(maps() && maps());
                  REQUIRE(counts.os_calls == 5 && counts.os_failures == 1);
                  return 0;
              }),
              0);
}

TEST_F(FaultOs, FailsAllCallsFromTheNthOn)
{
    EXPECT_EQ(in_child([](ProcessCounts &counts) {
                  fault_os_arm(counts, 2, true);
                  inside_subject = true;
                  REQUIRE(maps());
                  REQUIRE(!maps() && !maps() && !maps() && errno == ENOMEM);
                  fault_os_disarm();
                  REQUIRE(maps());
                  REQUIRE(counts.os_failures == 3);
                  return 0;
              }),
              0);
}

// Armed for the process, memory is scarce from the first failure on: for that call alone, or until it is disarmed.
TEST_F(FaultOs, MemoryIsScarceAsLongAsCallsFail)
{
    EXPECT_EQ(in_child([](ProcessCounts &) {
                  static Scarcity scarcity;
                  for (const bool for_ever : {false, true}) {
                      fault_os_arm_process(scarcity, 2, for_ever);
                      inside_subject = true;
                      std::uint32_t mark = scarcity.mark();
                      REQUIRE(maps() && !scarcity.since(mark));
                      REQUIRE(!maps() && scarcity.since(mark));
                      mark = scarcity.mark();
                      REQUIRE(maps() != for_ever && scarcity.since(mark) == for_ever);
                      inside_subject = false;
                      const FaultOsCounts counts = fault_os_disarm_process();
                      REQUIRE(counts.calls == 3 && counts.failures == (for_ever ? 2u : 1u));
                      REQUIRE(scarcity.since(mark) == for_ever && !scarcity.since(scarcity.mark()));
                  }
                  return 0;
              }),
              0);
}

TEST_F(FaultOs, NeverFailsTheHarness)
{
    EXPECT_EQ(in_child([](ProcessCounts &counts) {
                  fault_os_arm(counts, 1, true);
                  REQUIRE(maps());
                  REQUIRE(counts.os_calls == 0 && counts.os_failures == 0);
                  return 0;
              }),
              0);
}

TEST_F(FaultOs, FailsEachKindOfCall)
{
    EXPECT_EQ(in_child([](ProcessCounts &counts) {
                  void *page = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  void *const top = sbrk(0);
                  fault_os_arm(counts, 1, true);
                  inside_subject = true;
                  REQUIRE(munmap(page, 4096) == -1 && errno == ENOMEM);
                  REQUIRE(madvise(page, 4096, MADV_DONTNEED) == -1 && errno == ENOMEM);
                  REQUIRE(mprotect(page, 4096, PROT_NONE) == -1 && errno == ENOMEM);
                  REQUIRE(mremap(page, 8192, 4096, 0) == MAP_FAILED && errno == ENOMEM);
                  REQUIRE(sbrk(4096) == reinterpret_cast<void *>(-1) && errno == ENOMEM);
                  inside_subject = false;
                  REQUIRE(sbrk(0) == top);
                  REQUIRE(sbrk(4096) == top);
                  return 0;
              }),
              0);
}

TEST(MemoryLimit, IsSetAndGoes)
{
    const pid_t child = fork();
    if (child == 0) {
        const auto maps_64_mib = [] {
            return mmap(nullptr, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
        };
        const bool set = memory_limit_set(8 << 20) == 0;
        const bool refused = !maps_64_mib();
        const bool gone = memory_limit_set(0) == 0;
        _exit(set && refused && gone && maps_64_mib() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// Under the limit the harness can still map memory, from several threads at a time.
TEST(MemoryLimit, IsLiftedForTheHarnessByThreadsSideBySide)
{
    const pid_t child = fork();
    if (child == 0) {
        constexpr int kThreads = 4, kMaps = 3000, kBytes = 8 << 20;
        std::atomic<int> refused{0};
        std::atomic<bool> begin{false};
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i)
            threads.emplace_back([&] {
                while (!begin) {}
                for (int j = 0; j < kMaps; ++j) {
                    void *start = harness_mmap(kBytes, MAP_NORESERVE);
                    refused += start == MAP_FAILED;
                    if (start != MAP_FAILED) munmap(start, kBytes);
                }
            });
        const bool set = memory_limit_set(1 << 20) == 0;
        begin = true;
        for (std::thread &thread : threads) thread.join();
        const bool stays = mmap(nullptr, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
        memory_limit_set(0);
        _exit(set && stays && refused == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace stress
