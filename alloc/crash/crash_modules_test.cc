// crash_modules_test.cc: the list of modules is the same, whether the system shows its maps or the linker was asked
// before.
#include "base/test_support.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>

extern "C" {
#include "base/config.h"
#include "crash/crash_modules.h"
#include "report/modules.h"
}

namespace {

std::vector<crash_module> modules()
{
    std::vector<crash_module> found;
    crash_modules_look();
    crash_modules_for_each([](const crash_module *each,
                              void *context) { static_cast<std::vector<crash_module> *>(context)->push_back(*each); },
                           &found);
    return found;
}

const crash_module *with_start(const std::vector<crash_module> &all, uint64_t start)
{
    for (const crash_module &each : all)
        if (each.start == start) return &each;
    return nullptr;
}

const crash_module *holding(const std::vector<crash_module> &all, const void *address)
{
    for (const crash_module &each : all)
        if (each.start <= (uintptr_t)address && (uintptr_t)address < each.end) return &each;
    return nullptr;
}

struct Note {
    std::string name; // with its zero byte
    uint32_t type;
    std::string content;
};

std::string padded(std::string text)
{
    text.resize((text.size() + 3) & ~(size_t)3);
    return text;
}

// A file that is mapped with code, as the linker maps a module: these notes, and its headers in the order load, note or
// the other way round. Before them are `others` headers that say nothing about where the file is: the first is not
// loaded, the second is not of the file's first page. The last `uncounted` headers are not in the count.
std::string build_id_of(const std::vector<Note> &notes, bool load_is_last, size_t cut = 0, size_t others = 2,
                        size_t uncounted = 0)
{
    std::string bytes;
    for (const Note &each : notes) {
        ElfW(Nhdr) head = {(ElfW(Word))each.name.size(), (ElfW(Word))each.content.size(), each.type};
        bytes.append(reinterpret_cast<char *>(&head), sizeof head);
        bytes += padded(each.name) + padded(each.content);
    }
    bytes.resize(bytes.size() - cut);
    constexpr size_t notes_at = 4096;
    char page[2 * notes_at] = {};
    auto *file = reinterpret_cast<ElfW(Ehdr) *>(page);
    auto *headers = reinterpret_cast<ElfW(Phdr) *>(file + 1);
    memcpy(file->e_ident, ELFMAG, SELFMAG);
    file->e_phoff = sizeof *file;
    file->e_phentsize = sizeof *headers;
    file->e_phnum = (ElfW(Half))(others + 2 - uncounted);
    headers[0].p_type = PT_PHDR;
    headers[0].p_vaddr = 0x70000;
    headers[1].p_type = PT_LOAD;
    headers[1].p_vaddr = 0x90000;
    headers[1].p_offset = PAGE_BYTES;
    headers += others;
    headers[load_is_last ? 1 : 0].p_type = PT_LOAD;
    headers[load_is_last ? 1 : 0].p_vaddr = 0x10000;
    ElfW(Phdr) &note = headers[load_is_last ? 0 : 1];
    note.p_type = PT_NOTE;
    note.p_vaddr = 0x10000 + notes_at;
    note.p_filesz = bytes.size();
    memcpy(page + notes_at, bytes.data(), bytes.size());

    char path[] = "/tmp/hakmem-module-XXXXXX";
    int fd = mkstemp(path);
    EXPECT_EQ(write(fd, page, sizeof page), (ssize_t)sizeof page);
    void *mapped = mmap(nullptr, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    const std::vector<crash_module> all = modules();
    const crash_module *found = holding(all, mapped);
    EXPECT_NE(found, nullptr);
    std::string id;
    if (found != nullptr) {
        EXPECT_EQ(found->base, (uintptr_t)mapped - 0x10000);
        id.assign(reinterpret_cast<const char *>(found->build_id), found->build_id_bytes);
    }
    munmap(mapped, sizeof page);
    unlink(path);
    return id;
}

} // namespace

TEST(CrashModules, TheBuildIdIsThatOfItsNoteAlone)
{
    const std::string gnu("GNU\0", 4), longer("GNU\0GNU\0", 8), other("GNV\0", 4);
    const Note id = {gnu, NT_GNU_BUILD_ID, "identity"};
    for (bool load_is_last : {false, true}) {
        EXPECT_EQ(build_id_of({id}, load_is_last), "identity");
        EXPECT_EQ(build_id_of({{gnu, NT_GNU_ABI_TAG, "tag"}, id, {gnu, NT_GNU_BUILD_ID, "second"}}, load_is_last),
                  "identity");
        EXPECT_EQ(build_id_of({{other, NT_GNU_BUILD_ID, "not it"}, id}, load_is_last), "identity");
        EXPECT_EQ(build_id_of({{longer, NT_GNU_BUILD_ID, "not it"}, id}, load_is_last), "identity");
        EXPECT_EQ(build_id_of({{other, NT_GNU_BUILD_ID, "not it"}}, load_is_last), "");
        EXPECT_EQ(build_id_of({}, load_is_last), "");
        EXPECT_EQ(build_id_of({id}, load_is_last, 4), "") << "a note that is cut off";
        EXPECT_EQ(build_id_of({id, {other, 1, std::string(2000, 'x')}}, load_is_last), "identity")
            << "of notes that are longer than what is read";
    }
    const size_t most = IMAGE_BUILD_ID_MAX;
    EXPECT_EQ(build_id_of({id}, false, 0, 62), "identity") << "64 headers are read";
    EXPECT_EQ(build_id_of({id}, false, 0, 63), "") << "and no more";
    for (size_t others : {2, 61, 62})
        EXPECT_EQ(build_id_of({id}, false, 0, others, 1), "") << "nor what is behind them";
    for (size_t length : {(size_t)1, most - 1, most, most + 1}) {
        std::string content(length, 'i');
        EXPECT_EQ(build_id_of({{gnu, NT_GNU_BUILD_ID, content}}, false), content.substr(0, most));
    }
}

// A file with code that is no module begins where it is mapped, and has no id of the module before it.
TEST(CrashModules, WithoutHeadersTheBaseIsTheStart)
{
    char path[] = "/tmp/hakmem-module-XXXXXX";
    int fd = mkstemp(path);
    ASSERT_EQ(ftruncate(fd, 4096), 0);
    void *mapped = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    const std::vector<crash_module> all = modules();
    const crash_module *found = holding(all, mapped);
    munmap(mapped, 4096);
    unlink(path);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->start, (uintptr_t)mapped);
    EXPECT_EQ(found->base, (uintptr_t)mapped);
    EXPECT_EQ(found->build_id_bytes, 0u);
}

TEST(CrashModules, WithoutTheSystemsMapsTheLinkersListServes)
{
    modules_start();
    const std::vector<crash_module> mapped = modules();
    const auto libc = reinterpret_cast<const void *>(&strtoull), own = reinterpret_cast<const void *>(&modules);
    ASSERT_NE(holding(mapped, own), nullptr);
    EXPECT_TRUE(test::in_child([&] {
        rlimit none = {0, 0};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0); // no file can be opened
        const std::vector<crash_module> remembered = modules();
        ASSERT_NE(holding(remembered, own), nullptr);
        EXPECT_NE(holding(remembered, libc), nullptr);
        for (const crash_module &each : remembered) {
            const crash_module *same = with_start(mapped, each.start);
            ASSERT_NE(same, nullptr) << each.path;
            EXPECT_EQ(each.base, same->base) << each.path;
            ASSERT_EQ(each.build_id_bytes, same->build_id_bytes) << each.path;
            EXPECT_EQ(memcmp(each.build_id, same->build_id, same->build_id_bytes), 0) << each.path;
            EXPECT_GT(each.end, each.start) << each.path;
        }
    }));
    EXPECT_EQ(modules().size(), mapped.size());
}

namespace {

// How many modules the linker lists.
size_t listed()
{
    size_t count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *, size_t, void *seen) {
            ++*static_cast<size_t *>(seen);
            return 0;
        },
        &count);
    return count;
}

} // namespace

// As many modules are listed as the linker lists, without /proc, up to 512. (CRASH_MODULES_MAX)
TEST(CrashModules, ABoundedNumberIsListed)
{
    std::filesystem::path smallest; // of the libraries that are here
    for (const crash_module &each : modules())
        if (std::string(each.path).find(".so") != std::string::npos && std::filesystem::exists(each.path) &&
            (smallest.empty() || std::filesystem::file_size(each.path) < std::filesystem::file_size(smallest)))
            smallest = each.path;
    if (smallest.empty()) GTEST_SKIP() << "this program is linked statically";
    char folder_name[] = "/tmp/hakmem-modules-XXXXXX";
    ASSERT_NE(mkdtemp(folder_name), nullptr);
    const std::filesystem::path folder = folder_name;
    EXPECT_TRUE(test::in_child([&] {
        const size_t most = CRASH_MODULES_MAX, before_copies = listed();
        modules_start();
        for (size_t count = before_copies; count <= most + 1; count++) {
            ASSERT_EQ(listed(), count);
            rlimit before, none;
            ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
            none = {0, before.rlim_max};
            ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0); // no file can be opened
            const std::vector<crash_module> seen = modules();
            EXPECT_EQ(seen.size(), std::min(count, most));
            if (count > before_copies && count <= most)
                EXPECT_EQ(folder / std::to_string(count - 1), seen.back().path) << "the linker lists it last";
            ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
            const std::filesystem::path copy = folder / std::to_string(count);
            std::filesystem::copy_file(smallest, copy);
            ASSERT_NE(dlopen(copy.c_str(), RTLD_NOW), nullptr) << dlerror();
        }
    }));
    std::filesystem::remove_all(folder);
}
