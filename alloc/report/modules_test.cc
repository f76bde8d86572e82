// modules_test.cc: an address of code keeps its module. The plugins are copies of the smallest library that is mapped
// here. What reports say of them is tested by programs/modules_check.
#include "base/test_support.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern "C" {
#include "os/libc.h"
#include "report/image.h"
#include "report/modules.h"
}

namespace {

struct Lasting {
    uintptr_t address;
    const module_place *place;
};

bool quick()
{
    return dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr;
}

Lasting lasting_of(uintptr_t address, modules_trust trust = MODULES_SURELY)
{
    Lasting found = {0, nullptr};
    found.address = modules_lasting(address, trust, &found.place);
    return found;
}

std::string path_of(uintptr_t lasting)
{
    const module *found = modules_find(lasting);
    return found != nullptr ? found->path : "none";
}

const link_map *map_of(void *library)
{
    const link_map *map = nullptr;
    EXPECT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    return map;
}

// Makes copies of a library in a folder of its own.
class Modules : public testing::Test {
  protected:
    void SetUp() override
    {
        char name[] = "/tmp/hakmem-modules-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder = name;
        dl_iterate_phdr(
            [](dl_phdr_info *info, size_t, void *context) {
                auto *found = static_cast<std::filesystem::path *>(context);
                const std::filesystem::path path = info->dlpi_name;
                const bool is_loader = path.filename().string().starts_with("ld-");
                if (path.is_absolute() && !is_loader && exists(path) &&
                    (found->empty() || file_size(path) < file_size(*found)))
                    *found = path;
                return 0;
            },
            &smallest);
        if (smallest.empty()) GTEST_SKIP() << "this program is linked statically";
        if (!LIBC_UNLOADS) GTEST_SKIP() << "this libc unloads nothing";
        modules_start();
    }
    void TearDown() override { std::filesystem::remove_all(folder); }

    void *load(int number)
    {
        const std::filesystem::path path = folder / std::to_string(number);
        if (!exists(path)) copy_file(smallest, path);
        void *library = dlopen(path.c_str(), RTLD_NOW);
        EXPECT_NE(library, nullptr) << dlerror();
        return library;
    }

    std::filesystem::path folder, smallest;
};

} // namespace

TEST_F(Modules, TheProgramIsTheFirst)
{
    const auto here = reinterpret_cast<uintptr_t>(&lasting_of);
    const Lasting found = lasting_of(here);
    EXPECT_EQ(found.address, here);
    EXPECT_EQ(found.place, nullptr) << "it is never unloaded";
    ASSERT_GT(modules_count(), 1u);
    EXPECT_EQ(modules_find(here), modules_get(0));
    EXPECT_EQ(path_of(here), std::filesystem::read_symlink("/proc/self/exe").string());
    const auto libc = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "getpid"));
    EXPECT_EQ(lasting_of(libc).place, nullptr) << "the program needs it";
    EXPECT_NE(path_of(libc).find("libc"), std::string::npos);
    EXPECT_EQ(lasting_of(0x10000).address, 0x10000u);
    EXPECT_EQ(path_of(0x10000), "none");
}

// Each pair of files, one after the other at one place, and each read as code on the stack or as a number that may be any.
TEST_F(Modules, AnotherFileAtThePlaceHasARangeOfItsOwn)
{
    for (modules_trust trust : {MODULES_SURELY, MODULES_PERHAPS}) {
        const bool is_sure = trust == MODULES_SURELY;
        void *first = load(1);
        const auto address = reinterpret_cast<uintptr_t>(map_of(first)->l_ld);
        const Lasting before = lasting_of(address, trust);
        ASSERT_NE(before.place, nullptr);
        EXPECT_TRUE(modules_is_still(before.place, address));
        EXPECT_EQ(path_of(before.address), folder / "1");
        dlclose(first);
        void *second = load(2);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(map_of(second)->l_ld), address) << "not at the same place";
        // The copy has the same build id, so only its path tells it from the first.
        const Lasting after = lasting_of(address, MODULES_SURELY);
        EXPECT_FALSE(modules_is_still(before.place, address));
        EXPECT_NE(after.address, before.address);
        EXPECT_EQ(path_of(after.address), folder / "2");
        EXPECT_EQ(path_of(before.address), folder / "1") << is_sure;
        dlclose(second);
        // Memory that is no module's, where one was.
        const uintptr_t page = address & ~(uintptr_t)4095;
        void *mapped = mmap(reinterpret_cast<void *>(page), 4096, PROT_READ,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(mapped), page);
        const Lasting nowhere = lasting_of(address, trust);
        EXPECT_EQ(path_of(nowhere.address), "none");
        EXPECT_EQ(modules_shown(nowhere.address), address);
        munmap(mapped, 4096);
        // The first one comes again: it is the module that it was.
        first = load(1);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(map_of(first)->l_ld), address);
        EXPECT_EQ(lasting_of(address).address, before.address);
        EXPECT_TRUE(modules_is_still(before.place, address));
        dlclose(first);
    }
}

TEST_F(Modules, AFileThatIsLoadedElsewhereIsTheSame)
{
    void *library = load(1);
    const auto address = reinterpret_cast<uintptr_t>(map_of(library)->l_ld);
    const Lasting before = lasting_of(address);
    void *start = reinterpret_cast<void *>(map_of(library)->l_addr);
    dlclose(library);
    ASSERT_EQ(mmap(start, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), start);
    library = load(1);
    const auto elsewhere = reinterpret_cast<uintptr_t>(map_of(library)->l_ld);
    ASSERT_NE(elsewhere, address);
    EXPECT_EQ(lasting_of(elsewhere).address, before.address);
    dlclose(library);
    munmap(start, 4096);
}

// Only a part of a long name is kept. The place is found again all the same: each new one takes memory that stays.
TEST_F(Modules, AFileIsOnePlaceWhateverItsNamesLength)
{
    const size_t folder_bytes = folder.string().size() + 1;
    for (int bytes : {100, +MODULE_PATH_MAX - 2, +MODULE_PATH_MAX - 1, +MODULE_PATH_MAX, MODULE_PATH_MAX + 1, 2000}) {
        std::filesystem::path path = folder;
        for (size_t left = static_cast<size_t>(bytes) - folder_bytes; left > 0;) {
            const size_t part = left > 202 ? 200 : left > 101 ? left / 2 : left;
            path /= std::string(part, 'n');
            left -= left > part ? part + 1 : part;
        }
        ASSERT_EQ(path.string().size(), static_cast<size_t>(bytes));
        create_directories(path.parent_path());
        copy_file(smallest, path);
        void *library = dlopen(path.c_str(), RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        const auto address = reinterpret_cast<uintptr_t>(map_of(library)->l_ld);
        const Lasting first = lasting_of(address);
        ASSERT_NE(first.place, nullptr);
        for (int again = 0; again < 3; again++) EXPECT_EQ(lasting_of(address).place, first.place) << bytes;
        dlclose(library);
        remove_all(folder / path.lexically_relative(folder).begin()->string());
    }
}

// A filter of system calls may end a process that asks the system to read memory. A module on the stack is read in place.
TEST_F(Modules, AModuleOnTheStackIsReadWithoutTheSystem)
{
    if (!quick()) GTEST_SKIP() << "this libc has no _dl_find_object";
    EXPECT_TRUE(test::in_child([this] {
        const auto address = reinterpret_cast<uintptr_t>(map_of(load(7))->l_ld);
        sock_filter steps[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pipe2, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        const sock_fprog filter = {std::size(steps), steps};
        ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
        EXPECT_EQ(path_of(lasting_of(address).address), folder / "7");
    }));
}

// A file's program headers may lie where nothing of it is mapped. They are read if they can be, and nothing faults.
TEST(ModulesImage, HeadersThatAreNotMapped)
{
    // Between two pages that fault: what lies below a mapping may be another one.
    void *const pages = mmap(nullptr, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    const auto memory = static_cast<char *>(pages) + 4096;
    ASSERT_EQ(mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
    static image_room room;
    const auto start = reinterpret_cast<uintptr_t>(memory);
    for (size_t count : {1, 2, 64})
        for (size_t at : {64ul, 4096 - count * sizeof(ElfW(Phdr)), 4097 - count * sizeof(ElfW(Phdr)), 4096ul, 4097ul,
                          8192ul - 56, -start + 8, -(size_t)8}) {
            ElfW(Ehdr) header = {};
            memcpy(header.e_ident, ELFMAG, SELFMAG);
            header.e_phentsize = sizeof(ElfW(Phdr));
            header.e_phnum = static_cast<uint16_t>(count);
            header.e_phoff = at;
            memcpy(memory, &header, sizeof header);
            const bool is_mapped = at >= 64 && at + count * sizeof(ElfW(Phdr)) <= 4096 && at <= 4096;
            for (bool stays : {false, true}) {
                image found;
                EXPECT_EQ(image_read(start, &found, &room, stays), is_mapped) << count << " " << at << " " << stays;
            }
        }
    munmap(pages, 3 * 4096);
}

// As many are known as there is room for; the addresses of a file that is loaded later are in no module. (MODULES_MAX)
TEST_F(Modules, BeyondTheLastOneAddressesAreInNoModule)
{
    EXPECT_TRUE(test::in_child([this] {
        const int room = MODULES_MAX - static_cast<int>(modules_count());
        for (int i = 0; i < room + 2; i++) {
            const auto address = reinterpret_cast<uintptr_t>(map_of(load(i))->l_ld);
            const Lasting found = lasting_of(address);
            ASSERT_EQ(path_of(found.address), i < room ? (folder / std::to_string(i)).string() : "none");
            std::filesystem::remove(folder / std::to_string(i));
        }
        EXPECT_EQ(modules_count(), static_cast<uint32_t>(MODULES_MAX));
    }));
}
