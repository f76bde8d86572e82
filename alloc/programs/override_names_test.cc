// override_names_test.cc: under which names programs call malloc, and what of the library they see.
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "override_test_support.h"

namespace {

// Every name that glibc exports for a function that gives or takes blocks; none with another libc. The table of names follows that of
// symbols.
std::vector<std::string> names_of_glibcs_malloc()
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    const link_map *map = nullptr;
    if (libc == nullptr || dlinfo(libc, RTLD_DI_LINKMAP, &map) != 0) return {};
    std::set<void *> functions;
    for (const char *name : {"malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "posix_memalign",
                             "memalign", "valloc", "pvalloc", "malloc_usable_size"})
        functions.insert(dlsym(libc, name));
    const ElfW(Sym) *symbols = nullptr;
    const char *texts = nullptr;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym) *>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) texts = reinterpret_cast<const char *>(entry->d_un.d_ptr);
    }
    std::set<std::string> names;
    for (const ElfW(Sym) *each = symbols; reinterpret_cast<const char *>(each) < texts; ++each)
        if (each->st_shndx != SHN_UNDEF && each->st_value != 0 &&
            functions.count(reinterpret_cast<void *>(map->l_addr + each->st_value)) != 0)
            names.insert(texts + each->st_name);
    dlclose(libc);
    return {names.begin(), names.end()};
}

void *allocate(const std::string &name, size_t size)
{
    void *at = symbol(name.c_str());
    if (name.find("memalign") != name.npos) return reinterpret_cast<void *(*)(size_t, size_t)>(at)(64, size);
    if (name.find("calloc") != name.npos) return reinterpret_cast<void *(*)(size_t, size_t)>(at)(1, size);
    if (name.find("realloc") != name.npos) return reinterpret_cast<void *(*)(void *, size_t)>(at)(nullptr, size);
    return reinterpret_cast<void *(*)(size_t)>(at)(size);
}

// A block by one name, grown by another, freed by a third.
bool is_one_malloc(const std::string &name, const char *grow, const char *end, size_t size)
{
    auto *block = static_cast<char *>(allocate(name, size));
    if (block == nullptr || malloc_usable_size(block) < size) return false;
    memset(block, 7, size);
    block = static_cast<char *>(reinterpret_cast<void *(*)(void *, size_t)>(symbol(grow))(block, 2 * size));
    if (block == nullptr || std::count(block, block + size, 7) != (ptrdiff_t)size) return false;
    reinterpret_cast<void (*)(void *)>(symbol(end))(block);
    return true;
}

} // namespace

TEST(Override, EveryNameResolvesIntoTheLibrary)
{
    if (expected_library() == nullptr) GTEST_SKIP() << "this run is on libc's own malloc";
    for (const char *name :
         {"malloc", "calloc", "realloc", "reallocarray", "free", "cfree", "aligned_alloc", "posix_memalign", "memalign",
          "valloc", "pvalloc", "malloc_usable_size", "free_sized", "free_aligned_sized", "mallinfo", "mallinfo2",
          "malloc_trim", "malloc_info", "malloc_stats", "mallopt",
          // operator new, new[], delete, delete[] in all their forms
          "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
          "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdlPv",
          "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t",
          "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
          "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t", "hak_malloc", "hak_free",
          "hak_calloc", "hak_realloc", "hak_reallocarray", "hak_free_sized", "hak_free_aligned_sized",
          "hak_aligned_alloc", "hak_memalign", "hak_posix_memalign", "hak_valloc", "hak_pvalloc",
          "hak_malloc_usable_size", "hak_purge", "hak_stats_get", "hak_stats_print", "hak_version"}) {
        void *at = symbol(name);
        ASSERT_NE(at, nullptr) << name;
        Dl_info info;
        ASSERT_NE(dladdr(at, &info), 0) << name;
        EXPECT_NE(strstr(info.dli_fname, expected_library()), nullptr) << name << " is in " << info.dli_fname;
    }
}

// A program whose own malloc is a wrapper calls libc's by another of its names.
TEST(Override, EveryNameOfGlibcsMallocResolvesIntoTheLibrary)
{
    const std::vector<std::string> names = names_of_glibcs_malloc();
    if (names.empty()) GTEST_SKIP() << "this libc is not glibc";
    for (const char *name : {"malloc", "free", "valloc", "__libc_malloc", "__libc_memalign", "__libc_free"})
        ASSERT_NE(std::find(names.begin(), names.end(), name), names.end()) << name << ": the table was not read";
    if (expected_library() == nullptr) GTEST_SKIP() << "this run is on libc's own malloc";
    for (const std::string &name : names) {
        if (name == "__libc_reallocarray") continue; // calls realloc by its name
        Dl_info info;
        ASSERT_NE(dladdr(symbol(name.c_str()), &info), 0) << name;
        EXPECT_NE(strstr(info.dli_fname, expected_library()), nullptr) << name << " is in " << info.dli_fname;
    }
}

// In children, since libc ends the process at a block of another malloc.
TEST(Override, ABlockOfOneNameIsFreedByAnother)
{
    if (names_of_glibcs_malloc().empty()) GTEST_SKIP() << "this libc is not glibc";
    for (const char *name : {"malloc", "__libc_malloc", "calloc", "__libc_calloc", "realloc", "__libc_realloc",
                             "memalign", "__libc_memalign", "valloc", "__libc_valloc", "pvalloc", "__libc_pvalloc"})
        for (const char *grow : {"realloc", "__libc_realloc"})
            for (const char *end : {"free", "__libc_free"}) {
                pid_t child = fork();
                if (child == 0) {
                    bool holds = true;
                    for (size_t size : {24u, 5000u, 100000u, 5000000u})
                        holds = holds && is_one_malloc(name, grow, end, size);
                    _exit(holds ? 0 : 1);
                }
                int status = -1;
                ASSERT_EQ(waitpid(child, &status, 0), child);
                EXPECT_EQ(status, 0) << name << ", " << grow << ", " << end;
            }
}

TEST(Override, NothingElseIsExported)
{
    if (expected_library() == nullptr) GTEST_SKIP() << "this run is on libc's own malloc";
    for (const char *name : {"os", "heap_alloc_large", "pool_claim", "tcache_refill", "slab_make", "lock_acquire",
                             "meta_alloc", "os_page_bytes", "pagemap_start"})
        EXPECT_EQ(symbol(name), nullptr) << name;
}
