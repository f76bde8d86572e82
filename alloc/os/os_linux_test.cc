// os_linux_test.cc: the contract in os.h, clause by clause, against the kernel itself. os_write_test.cc has what it writes,
// os_refused_test.cc what it does where the kernel refuses a call.
#include "base/test_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <chrono>

extern "C" {
#include "base/config.h"
#include "os/os.h"
}

namespace {

using test::is_mapped;
using test::MIB;

constexpr int ERRNO_BEFORE = 4711;

char *reserve(size_t size_bytes, size_t align_bytes = PAGE_BYTES)
{
    return static_cast<char *>(os_linux_ops.reserve(nullptr, size_bytes, align_bytes));
}

class OsLinux : public testing::Test {
  protected:
    void SetUp() override { errno = ERRNO_BEFORE; }
    void TearDown() override { EXPECT_EQ(errno, ERRNO_BEFORE) << "a call changed errno"; }
};

} // namespace

TEST_F(OsLinux, ReserveAtEveryAlignment)
{
    for (size_t align = PAGE_BYTES; align <= 64 * MIB; align *= 2)
        for (size_t size : {size_t{PAGE_BYTES}, size_t{3 * PAGE_BYTES}, 4 * MIB}) {
            char *first = reserve(size, align), *second = reserve(size, align);
            ASSERT_NE(first, nullptr);
            ASSERT_NE(second, nullptr);
            EXPECT_TRUE(test::is_aligned(first, align));
            EXPECT_TRUE(test::is_aligned(second, align));
            EXPECT_TRUE(first + size <= second || second + size <= first);
            EXPECT_TRUE(is_mapped(first + size - 1));
            EXPECT_EQ(os_linux_ops.release(first, size), 0);
            EXPECT_EQ(os_linux_ops.release(second, size), 0);
            EXPECT_FALSE(is_mapped(first));
            errno = ERRNO_BEFORE; // mincore has set it
        }
}

// How much address space the process has. It maps nothing itself.
static size_t mapped_bytes()
{
    char text[32] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    EXPECT_GT(read(fd, text, sizeof text - 1), 0);
    close(fd);
    return strtoul(text, nullptr, 10) * os_page_bytes();
}

TEST_F(OsLinux, ReserveLeavesNothingBesideIt)
{
    const size_t before = mapped_bytes();
    char *start = reserve(PAGE_BYTES, 64 * MIB);
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(mapped_bytes(), before + PAGE_BYTES) << "both ends were cut off";
    EXPECT_EQ(os_linux_ops.release(start, PAGE_BYTES), 0);
    errno = ERRNO_BEFORE;
}

// If a first mapping was not aligned, it is gone before a longer one is made: at the limit there is room for only one.
TEST_F(OsLinux, ReserveNeedsNoMoreThanTheAlignmentBeside)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    EXPECT_TRUE(test::in_child([] {
        const size_t size = 64 * MIB, align = 1024 * MIB; // of such a length none is aligned by chance
        rlimit limit;
        ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
        limit.rlim_cur = mapped_bytes() + size + align + MIB;
        ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
        char *start = reserve(size, align);
        EXPECT_NE(start, nullptr);
        EXPECT_TRUE(test::is_aligned(start, align));
    }));
    errno = ERRNO_BEFORE;
}

TEST_F(OsLinux, ReserveAtAnAddress)
{
    char *start = reserve(4 * MIB);
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(os_linux_ops.reserve(start, PAGE_BYTES, PAGE_BYTES), nullptr) << "taken";
    EXPECT_EQ(os_linux_ops.reserve(start + MIB, 4 * MIB, PAGE_BYTES), nullptr) << "taken in part";
    EXPECT_EQ(os_linux_ops.release(start + MIB, MIB), 0);
    EXPECT_EQ(os_linux_ops.reserve(start + MIB, MIB, PAGE_BYTES), start + MIB) << "free";
    EXPECT_EQ(os_linux_ops.release(start, 4 * MIB), 0);
}

TEST_F(OsLinux, ReserveRefuses)
{
    EXPECT_EQ(reserve(size_t{1} << 60), nullptr);
    EXPECT_EQ(reserve(SIZE_MAX & ~size_t{PAGE_BYTES - 1}, 4 * MIB), nullptr);
    EXPECT_EQ(reserve(size_t{1} << 46, size_t{1} << 62), nullptr);
}

TEST_F(OsLinux, ReservedMemoryCannotBeTouched)
{
    char *start = reserve(PAGE_BYTES);
    ASSERT_NE(start, nullptr);
    EXPECT_DEATH(*static_cast<volatile char *>(start) = 1, "");
    errno = ERRNO_BEFORE;
    EXPECT_EQ(os_linux_ops.release(start, PAGE_BYTES), 0);
}

TEST_F(OsLinux, CommitPurgeRelease)
{
    char *start = reserve(4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_EQ(os_linux_ops.commit(start, 4 * MIB), 0);
    EXPECT_TRUE(test::is_zero(start, 4 * MIB, 512));
    test::pattern_fill(start, 4 * MIB, 1, 512);

    for (bool by_advice : {true, false}) {
        os_purge_by_advice(by_advice);
        start[MIB] = start[2 * MIB - 1] = 1;
        EXPECT_EQ(os_linux_ops.purge(start + MIB, MIB), 0);
        EXPECT_TRUE(test::is_zero(start + MIB, MIB, 512)) << "purged";
        EXPECT_EQ(start[2 * MIB - 1], 0);
    }
    EXPECT_EQ(start[MIB - 512], (char)test::pattern_byte(1, MIB - 512)) << "before what was purged";
    EXPECT_EQ(start[2 * MIB], (char)test::pattern_byte(1, 2 * MIB)) << "behind it";
    start[MIB] = 1; // still usable

    EXPECT_EQ(os_linux_ops.release(start, 4 * MIB), 0);
    EXPECT_FALSE(is_mapped(start));
    errno = ERRNO_BEFORE;
}

TEST_F(OsLinux, ErrorsAreReturned)
{
    char *start = reserve(PAGE_BYTES);
    ASSERT_NE(start, nullptr);
    ASSERT_EQ(os_linux_ops.release(start, PAGE_BYTES), 0);
    EXPECT_EQ(os_linux_ops.commit(start, PAGE_BYTES), ENOMEM) << "not reserved";
    os_purge_by_advice(true); // a mapping would be made
    EXPECT_EQ(os_linux_ops.purge(start, PAGE_BYTES), ENOMEM);
    os_purge_by_advice(false);
    EXPECT_EQ(os_linux_ops.seal(start, PAGE_BYTES), ENOMEM);
    EXPECT_EQ(os_linux_ops.expose(start, PAGE_BYTES), ENOMEM);
    EXPECT_EQ(os_linux_ops.release(start + 1, PAGE_BYTES), EINVAL);
    EXPECT_NE(os_linux_ops.grow(start, PAGE_BYTES, 2 * PAGE_BYTES), 0);
    EXPECT_NE(os_linux_ops.move(start, PAGE_BYTES, start + MIB, PAGE_BYTES), 0);
}

TEST_F(OsLinux, GrowWhereThereIsRoom)
{
    char *start = reserve(4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_EQ(os_linux_ops.release(start + 2 * MIB, 2 * MIB), 0);
    ASSERT_EQ(os_linux_ops.commit(start, 2 * MIB), 0);
    test::pattern_fill(start, 2 * MIB, 2, 512);
    ASSERT_EQ(os_linux_ops.grow(start, 2 * MIB, 4 * MIB), 0);
    EXPECT_TRUE(test::pattern_holds(start, 2 * MIB, 2, 512));
    EXPECT_TRUE(test::is_zero(start + 2 * MIB, 2 * MIB, 512));
    EXPECT_EQ(os_linux_ops.release(start, 4 * MIB), 0);
}

TEST_F(OsLinux, GrowRefusesWhereThereIsNone)
{
    char *start = reserve(4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_EQ(os_linux_ops.commit(start, 2 * MIB), 0);
    test::pattern_fill(start, 2 * MIB, 3, 512);
    EXPECT_EQ(os_linux_ops.grow(start, 2 * MIB, 4 * MIB), ENOMEM);
    EXPECT_TRUE(test::pattern_holds(start, 2 * MIB, 3, 512));
    EXPECT_EQ(os_linux_ops.release(start, 4 * MIB), 0);
}

TEST_F(OsLinux, MoveKeepsTheContent)
{
    char *start = reserve(2 * MIB), *target = reserve(4 * MIB, 4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_NE(target, nullptr);
    ASSERT_EQ(os_linux_ops.commit(start, 2 * MIB), 0);
    test::pattern_fill(start, 2 * MIB, 4, 512);
    ASSERT_EQ(os_linux_ops.move(start, 2 * MIB, target, 4 * MIB), 0);
    EXPECT_TRUE(test::pattern_holds(target, 2 * MIB, 4, 512));
    EXPECT_TRUE(test::is_zero(target + 2 * MIB, 2 * MIB, 512));
    EXPECT_FALSE(is_mapped(start));
    errno = ERRNO_BEFORE;
    EXPECT_EQ(os_linux_ops.release(target, 4 * MIB), 0);
}

TEST_F(OsLinux, MoveThatFailsChangesNothing)
{
    char *start = reserve(2 * MIB), *target = reserve(4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_NE(target, nullptr);
    ASSERT_EQ(os_linux_ops.commit(start, 2 * MIB), 0);
    test::pattern_fill(start, 2 * MIB, 5, 512);
    EXPECT_EQ(os_linux_ops.move(start, 2 * MIB, target + 1, 4 * MIB), EINVAL) << "misaligned";
    EXPECT_TRUE(test::pattern_holds(start, 2 * MIB, 5, 512));
    EXPECT_EQ(os_linux_ops.release(start, 2 * MIB), 0);
    EXPECT_EQ(os_linux_ops.release(target, 4 * MIB), 0);
}

TEST_F(OsLinux, HugePagesAreOnlyAdvice)
{
    char *start = reserve(4 * MIB, 4 * MIB);
    ASSERT_NE(start, nullptr);
    ASSERT_EQ(os_linux_ops.commit(start, 4 * MIB), 0);
    os_advise_huge(start, 4 * MIB);
    EXPECT_TRUE(test::is_zero(start, 4 * MIB, 4096));
    EXPECT_EQ(os_linux_ops.release(start, 4 * MIB), 0);
    os_advise_huge(start, 4 * MIB); // no mapping: no harm, no errno
}

TEST_F(OsLinux, TimeNeverGoesBack)
{
    uint64_t before = os_now_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    uint64_t after = os_now_ms();
    EXPECT_GE(after, before + 10);
    EXPECT_LT(after, before + 60000);
}

TEST_F(OsLinux, PageSize)
{
    EXPECT_EQ(os_page_bytes(), (size_t)getpagesize());
    EXPECT_EQ(PAGE_BYTES % os_page_bytes(), 0u);
}

TEST_F(OsLinux, AddressSpaceLimit)
{
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    EXPECT_EQ(os_address_space_limit_bytes(), limit.rlim_cur) << "or none, which is UINT64_MAX";
    SKIP_UNDER_SANITIZER("its shadow needs more");
    EXPECT_TRUE(test::in_child([&limit] {
        limit.rlim_cur = uint64_t{1} << 46;
        ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
        EXPECT_EQ(os_address_space_limit_bytes(), uint64_t{1} << 46);
    }));
    errno = ERRNO_BEFORE;
}

TEST_F(OsLinux, SpaceIsWhatTheLimitLeaves)
{
    SKIP_UNDER_SANITIZER("it is not asked there");
    EXPECT_TRUE(os_has_space(size_t{1} << 44));
    EXPECT_FALSE(os_has_space(size_t{1} << 50));
    EXPECT_TRUE(test::in_child([] {
        for (size_t size : {64 * MIB, 512 * MIB, 4096 * MIB}) { // the process itself takes less than the first
            rlimit limit = {size, RLIM_INFINITY};
            ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
            EXPECT_TRUE(os_has_space(size / 16));
            EXPECT_FALSE(os_has_space(size));
        }
    }));
    errno = ERRNO_BEFORE;
}

TEST_F(OsLinux, WaitAndWake)
{
    uint32_t word = 1;
    os_wait(&word, 0); // differs already: returns at once
    os_wake_one(&word); // nobody waits

    static std::atomic<uint32_t> state;
    state = 0;
    std::thread waiter([] {
        while (state.load() == 0) os_wait(reinterpret_cast<uint32_t *>(&state), 0);
        state = 2;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    state = 1;
    os_wake_one(reinterpret_cast<uint32_t *>(&state));
    waiter.join();
    EXPECT_EQ(state.load(), 2u);
    errno = ERRNO_BEFORE; // the thread library has set it
}

// Times of a second and more too: the system refuses a time with that many nanoseconds, and the wait would end at once.
TEST_F(OsLinux, WaitsForAsLongAsItIsAskedTo)
{
    uint32_t word = 0;
    os_wait_ms(&word, 0, 1); // ends by itself
    static std::atomic<uint32_t> state;
    for (uint32_t ms : {60000u, 60007u}) {
        state = 0;
        std::thread waiter([ms] {
            os_wait_ms(reinterpret_cast<uint32_t *>(&state), 0, ms);
            state = 2;
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        uint32_t waits = 0;
        EXPECT_TRUE(state.compare_exchange_strong(waits, 1)) << ms << " ms, and it waits no more";
        os_wake_one(reinterpret_cast<uint32_t *>(&state));
        waiter.join();
    }
    errno = ERRNO_BEFORE; // the thread library has set it
}
