// operators_test.cc: a module with an operator new or delete of its own excuses the frees that its calls may make, and no
// other. Its names are found by the GNU hash table, by the older one, be it the first of them or another, and not in
// a table that is empty.
#include "base/test_support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <link.h>
#include <sys/mman.h>

extern "C" {
#include "debug/frame.h"
#include "debug/operators.h"
}

namespace {

void *load(const char *name)
{
    return dlopen((std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).c_str(), RTLD_NOW);
}

uint32_t *gnu_hash(void *module)
{
    link_map *map;
    EXPECT_EQ(dlinfo(module, RTLD_DI_LINKMAP, &map), 0);
    const ElfW(Dyn) *entry = map->l_ld;
    while (entry->d_tag != DT_NULL && entry->d_tag != DT_GNU_HASH) entry++;
    if (entry->d_tag == DT_NULL) return nullptr;
    uintptr_t table = entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr : entry->d_un.d_ptr;
    return reinterpret_cast<uint32_t *>(table);
}

constexpr const char *WITH_NEW = "liboperators-new.so", *WITH_DELETE = "liboperators-delete.so";

} // namespace

TEST(Operators, OnlyThoseThatAModuleHas)
{
    EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW) || operators_elsewhere(OPERATORS_DELETE))
        << "this program's are ours";
    EXPECT_TRUE(test::in_child([] {
        void *module = load(WITH_NEW);
        ASSERT_NE(gnu_hash(module), nullptr) << dlerror();
        EXPECT_FALSE(operators_elsewhere(OPERATORS_DELETE));
        EXPECT_TRUE(operators_elsewhere(OPERATORS_NEW));
        dlclose(module);
        EXPECT_TRUE(operators_elsewhere(OPERATORS_NEW)) << "its blocks may outlive it";
    }));
    EXPECT_TRUE(test::in_child([] {
        void *module = load(WITH_DELETE);
        ASSERT_NE(module, nullptr) << dlerror();
        EXPECT_EQ(gnu_hash(module), nullptr) << "it is there to have the older table";
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
        EXPECT_TRUE(operators_elsewhere(OPERATORS_DELETE));
    }));
    EXPECT_TRUE(test::in_child([] {
        uint32_t *table = gnu_hash(load(WITH_NEW));
        auto page = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(table) & ~(uintptr_t)4095);
        ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
        table[0] = 0; // the number of buckets
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
    }));
}

TEST(Operators, ExcuseTheFreesThatTheModuleMayMake)
{
    struct {
        frame_family by, with;
        const char *module;
    } const frees[] = {{FAMILY_MALLOC, FAMILY_NEW, WITH_NEW},       {FAMILY_MALLOC, FAMILY_NEW_ARRAY, WITH_NEW},
                       {FAMILY_NEW, FAMILY_NEW_ARRAY, WITH_NEW},    {FAMILY_NEW, FAMILY_MALLOC, WITH_DELETE},
                       {FAMILY_NEW_ARRAY, FAMILY_NEW, WITH_DELETE}, {FAMILY_NEW_ARRAY, FAMILY_MALLOC, WITH_DELETE}};
    for (const auto &each : frees)
        for (const char *module : {"", WITH_NEW, WITH_DELETE}) {
            bool excused = test::in_child([&] {
                if (*module != '\0' && load(module) == nullptr) return;
                void *block = frame_alloc(each.by, 0, 100, false);
                dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); // the report
                frame_free(block, {each.with, false, false, 0, 0});
            });
            EXPECT_EQ(excused, module == each.module) << each.by << " freed with " << each.with << ", " << module;
        }
}
