// maps_test.cc: the entries read from /proc/self/maps agree with the memory that the test has mapped.
#include "base/test_support.h"

#include <sys/mman.h>
#include <sys/resource.h>

extern "C" {
#include "os/maps.h"
}

namespace {

char data[1 << 16] = "data";

maps_entry found(const void *address)
{
    maps_entry entry{};
    EXPECT_TRUE(maps_find(reinterpret_cast<uintptr_t>(address), &entry));
    return entry;
}

} // namespace

TEST(Maps, KnowsTheMainStackTheProgramsDataAndAMapping)
{
    // Not a variable's address: a sanitizer may keep those elsewhere.
    if (getpid() == gettid()) EXPECT_STREQ(found(__builtin_frame_address(0)).name, "[stack]");
    maps_entry entry = found(data);
    EXPECT_TRUE(entry.is_file);
    EXPECT_TRUE(entry.is_writable);
    EXPECT_NE(strstr(entry.name, "alloc-tests"), nullptr) << entry.name;

    char *mapped = static_cast<char *>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    entry = found(mapped);
    EXPECT_LE(entry.low, reinterpret_cast<uintptr_t>(mapped));
    EXPECT_GE(entry.high, reinterpret_cast<uintptr_t>(mapped) + 8192);
    EXPECT_FALSE(entry.is_writable);
    EXPECT_FALSE(entry.is_file);
    munmap(mapped, 8192);
}

TEST(Maps, FindsNothingWhereNothingIs)
{
    maps_entry entry;
    errno = 7;
    EXPECT_FALSE(maps_find(0, &entry));
    EXPECT_FALSE(maps_find(~(uintptr_t)0 - 4095, &entry) && !entry.is_file && entry.name[0] == '\0');
    EXPECT_EQ(errno, 7);
}

TEST(Maps, WhereTheListCannotBeReadErrnoStays)
{
    EXPECT_TRUE(test::in_child([] {
        const rlimit none = {0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        maps_entry entry;
        errno = 7;
        EXPECT_FALSE(maps_scan([](const maps_entry *, void *) { return true; }, nullptr));
        EXPECT_EQ(errno, 7);
        EXPECT_FALSE(maps_find((uintptr_t)data, &entry));
        EXPECT_EQ(errno, 7);
    }));
}

TEST(Maps, AMappingEndsBeforeItsEnd)
{
    char *mapped = static_cast<char *>(mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto middle = reinterpret_cast<uintptr_t>(mapped) + 4096;
    ASSERT_EQ(mprotect(mapped + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    maps_entry entry = found(mapped + 4096);
    EXPECT_EQ(entry.low, middle);
    EXPECT_EQ(entry.high, middle + 4096);
    EXPECT_TRUE(entry.is_writable);
    munmap(mapped + 4096, 4096);
    EXPECT_FALSE(maps_find(middle, &entry));
    EXPECT_FALSE(maps_find(middle + 4095, &entry));
    EXPECT_TRUE(maps_find(middle + 4096, &entry));
    munmap(mapped, 3 * 4096);
}

TEST(Maps, EntriesRiseAndAreSeenUntilTheVisitorHasEnough)
{
    struct seen {
        uintptr_t last;
        int count, most;
    } all{0, 0, 1 << 20}, three{0, 0, 3};
    auto visit = [](const maps_entry *entry, void *context) {
        auto *seen = static_cast<struct seen *>(context);
        EXPECT_GE(entry->low, seen->last);
        EXPECT_GT(entry->high, entry->low);
        seen->last = entry->high;
        return ++seen->count == seen->most;
    };
    EXPECT_TRUE(maps_scan(visit, &all));
    EXPECT_GT(all.count, 5);
    EXPECT_TRUE(maps_scan(visit, &three));
    EXPECT_EQ(three.count, 3);
}
