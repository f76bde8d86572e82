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

void make_writable(const void *address)
{
    auto page = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(address) & ~(uintptr_t)4095);
    EXPECT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
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

// The entry of its dynamic section, which becomes writable.
ElfW(Dyn) * dynamic_entry(void *module, ElfW(Sxword) tag)
{
    link_map *map;
    EXPECT_EQ(dlinfo(module, RTLD_DI_LINKMAP, &map), 0);
    ElfW(Dyn) *entry = map->l_ld;
    while (entry->d_tag != DT_NULL && entry->d_tag != tag) entry++;
    EXPECT_EQ(entry->d_tag, tag);
    make_writable(entry);
    return entry;
}

// Of the memory's program headers: those that the loader tells.
ElfW(Phdr) * headers(void *module, size_t *count)
{
    link_map *map;
    EXPECT_EQ(dlinfo(module, RTLD_DI_LINKMAP, &map), 0);
    auto file = reinterpret_cast<const ElfW(Ehdr) *>(map->l_addr);
    auto first = reinterpret_cast<ElfW(Phdr) *>(map->l_addr + file->e_phoff);
    make_writable(first);
    *count = file->e_phnum;
    return first;
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
        EXPECT_FALSE(operators_elsewhere(OPERATORS_DELETE)) << "those that were found are not of this kind";
        dlclose(module);
        EXPECT_TRUE(operators_elsewhere(OPERATORS_NEW)) << "its blocks may outlive it";
    }));
    EXPECT_TRUE(test::in_child([] {
        void *module = load(WITH_DELETE);
        ASSERT_NE(module, nullptr) << dlerror();
        EXPECT_EQ(gnu_hash(module), nullptr) << "it is there to have the older table";
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
        EXPECT_TRUE(operators_elsewhere(OPERATORS_DELETE));
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
    }));
    EXPECT_TRUE(test::in_child([] {
        uint32_t *table = gnu_hash(load(WITH_NEW));
        make_writable(table);
        table[0] = 0; // the number of buckets
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
    }));
}

// A module that lacks a table has no names to be found by; one that lacks them all is as a program that is linked
// statically.
TEST(Operators, AModuleWithoutATable)
{
    EXPECT_TRUE(test::in_child([] {
        size_t count;
        ElfW(Phdr) *all = headers(load(WITH_NEW), &count);
        for (size_t i = 0; i < count; i++)
            if (all[i].p_type == PT_DYNAMIC) all[i].p_type = PT_NULL;
        EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
    }));
    for (ElfW(Sxword) tag : {DT_HASH, DT_SYMTAB, DT_STRTAB})
        EXPECT_TRUE(test::in_child([tag] {
            dynamic_entry(load(WITH_DELETE), tag)->d_tag = DT_DEBUG; // which nobody asks a module for
            EXPECT_FALSE(operators_elsewhere(OPERATORS_NEW));
            EXPECT_FALSE(operators_elsewhere(OPERATORS_DELETE));
        })) << tag;
}

TEST(Operators, TheTablesAreFoundByAnyOfTheHeaders)
{
    for (bool is_first : {true, false})
        EXPECT_TRUE(test::in_child([is_first] {
            size_t count;
            ElfW(Phdr) *all = headers(load(WITH_NEW), &count), *dynamic = all;
            while (dynamic->p_type != PT_DYNAMIC) ASSERT_LT(++dynamic, all + count);
            std::swap(*dynamic, is_first ? all[0] : all[count - 1]);
            EXPECT_TRUE(operators_elsewhere(OPERATORS_NEW));
        })) << is_first;
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
