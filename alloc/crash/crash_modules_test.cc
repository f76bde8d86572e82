// crash_modules_test.cc: the list of modules is the same, whether the system shows its maps or the linker was asked
// before.
#include "base/test_support.h"

#include <sys/resource.h>

extern "C" {
#include "crash/crash_modules.h"
}

namespace {

std::vector<module> modules()
{
    std::vector<module> found;
    modules_for_each(
        [](const module *each, void *context) { static_cast<std::vector<module> *>(context)->push_back(*each); },
        &found);
    return found;
}

const module *with_start(const std::vector<module> &all, uint64_t start)
{
    for (const module &each : all)
        if (each.start == start) return &each;
    return nullptr;
}

const module *holding(const std::vector<module> &all, const void *address)
{
    for (const module &each : all)
        if (each.start <= (uintptr_t)address && (uintptr_t)address < each.end) return &each;
    return nullptr;
}

} // namespace

TEST(CrashModules, WithoutTheSystemsMapsTheLinkersListServes)
{
    modules_remember();
    const std::vector<module> mapped = modules();
    const auto libc = reinterpret_cast<const void *>(&strtoull), own = reinterpret_cast<const void *>(&modules);
    ASSERT_NE(holding(mapped, own), nullptr);
    EXPECT_TRUE(test::in_child([&] {
        rlimit none = {0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0); // no file can be opened
        const std::vector<module> remembered = modules();
        ASSERT_NE(holding(remembered, own), nullptr);
        EXPECT_NE(holding(remembered, libc), nullptr);
        for (const module &each : remembered) {
            const module *same = with_start(mapped, each.start);
            ASSERT_NE(same, nullptr) << each.path;
            EXPECT_EQ(each.base, same->base) << each.path;
            ASSERT_EQ(each.build_id_bytes, same->build_id_bytes) << each.path;
            EXPECT_EQ(memcmp(each.build_id, same->build_id, same->build_id_bytes), 0) << each.path;
            EXPECT_GT(each.end, each.start) << each.path;
        }
    }));
    EXPECT_EQ(modules().size(), mapped.size());
}
