// bounds_test.cc: the bounds of crash records. sanitizers/bounds.txt says where the tests of the other bounds are.
#include "base/test_support.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "hakmem/crash.h"
#include "hakmem/record.h"

extern "C" {
#include "crash/crash.h"
#include "guard/guard.h"
#include "guard/guard_report.h"
#include "os/maps.h"
}

namespace {

class CrashBounds : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(directory); }
    void TearDown() override { std::filesystem::remove_all(top); }
    size_t records() const
    {
        std::filesystem::directory_iterator all(directory);
        return static_cast<size_t>(std::distance(begin(all), end(all)));
    }
    // For a child, which survives what it raises.
    void install(int expected)
    {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        ASSERT_EQ(sigaction(SIGFPE, &action, nullptr), 0);
        EXPECT_EQ(hak_crash_handler_install(directory.c_str()), expected);
    }
    // In a child: installs the handler and raises a signal for each record.
    bool crashes(int count, int expected)
    {
        return test::in_child([&] {
            install(expected);
            errno = 77;
            for (int i = 0; i < count; i++) raise(SIGFPE);
            EXPECT_EQ(errno, 77);
        });
    }
    const std::string top =
        std::filesystem::canonical(testing::TempDir()).string() + "/hakmem-bounds-" + std::to_string(getpid());
    std::string directory = top;
};

using fields_by_id = std::map<uint32_t, std::vector<std::string>>;

fields_by_id fields_of_record(const std::filesystem::path &path)
{
    fields_by_id fields;
    std::ifstream stream(path, std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(stream), {});
    for (size_t at = RECORD_HEAD_BYTES; at + RECORD_FIELD_HEAD_BYTES <= all.size();) {
        uint32_t head[2]; // id, length
        memcpy(head, &all[at], sizeof head);
        fields[head[0]].push_back(all.substr(at += RECORD_FIELD_HEAD_BYTES, head[1]));
        at += head[1];
    }
    return fields;
}

// The mappings that are of no file and are no stack: the blocks, and what the library keeps beside them. Not those that
// follow a file's (.bss), nor the one with the thread's variables.
struct mapped {
    uintptr_t file_end = 0;
    std::array<std::pair<uintptr_t, uintptr_t>, 256> found;
    size_t count = 0;
};

void overwrite_what_is_mapped(unsigned char fill)
{
    static mapped all;
    auto visit = [](const struct maps_entry *entry, void *) {
        if (entry->is_file || entry->low == all.file_end) {
            all.file_end = entry->high;
            return false;
        }
        const auto mine = reinterpret_cast<uintptr_t>(&errno);
        stack_t handlers;
        sigaltstack(nullptr, &handlers);
        const auto stack = reinterpret_cast<uintptr_t>(handlers.ss_sp);
        auto holds = [&](uintptr_t address) { return entry->low <= address && address < entry->high; };
        if (entry->name[0] == '\0' && entry->is_writable && !holds(mine) && !holds(stack) &&
            all.count < all.found.size())
            all.found[all.count++] = {entry->low, entry->high};
        return false;
    };
    if (!maps_scan(visit, nullptr)) _exit(3);
    for (size_t i = 0; i < all.count; i++)
        memset(reinterpret_cast<void *>(all.found[i].first), fill, all.found[i].second - all.found[i].first);
}

} // namespace

// Removed, it has no directory any more, also where sampled blocks want its reports meanwhile.
TEST_F(CrashBounds, TheNextInstallationHasItsOwnDirectory)
{
    const std::string other = top + "/other";
    std::filesystem::create_directory(other);
    EXPECT_TRUE(test::in_child([&] {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        ASSERT_EQ(sigaction(SIGFPE, &action, nullptr), 0);
        EXPECT_EQ(hak_crash_handler_install(other.c_str()), 0);
        EXPECT_EQ(hak_crash_handler_install(directory.c_str()), EALREADY);
        hak_crash_handler_remove();
        crash_start_for_guards();
        raise(SIGFPE);
        EXPECT_TRUE(std::filesystem::is_empty(other));
        EXPECT_EQ(hak_crash_handler_install(directory.c_str()), 0);
        raise(SIGFPE);
    }));
    EXPECT_TRUE(std::filesystem::is_empty(other));
    EXPECT_EQ(records(), 2u) << "the other directory and a record";
}

// The program's handlers were put over ours and call it. Ours is removed, and installed again over those, as a program does
// that wants another directory; at last the program takes its own out, too. Each signal still has one record and reaches
// each handler once.
TEST_F(CrashBounds, InstalledAgainOverHandlersThatCallOurs)
{
    EXPECT_TRUE(test::in_child([&] {
        static int first, calls[2];
        static struct sigaction ours[2];
        size_t crashes = 0;
        auto put = [](auto handler, struct sigaction *before) {
            struct sigaction action = {};
            action.sa_flags = SA_SIGINFO;
            action.sa_sigaction = handler;
            EXPECT_EQ(sigaction(SIGFPE, &action, before), 0);
        };
        auto install_again = [&] {
            hak_crash_handler_remove();
            EXPECT_EQ(hak_crash_handler_install(directory.c_str()), 0);
        };
        auto crash = [&](int first_called, int second_called) {
            first = calls[0] = calls[1] = 0;
            raise(SIGFPE);
            EXPECT_EQ(first, 1);
            EXPECT_EQ(calls[0], first_called);
            EXPECT_EQ(calls[1], second_called);
            EXPECT_EQ(records(), ++crashes);
        };
        put([](int, siginfo_t *, void *) { first++; }, nullptr);
        install_again();
        put(
            [](int n, siginfo_t *i, void *c) {
                if (++calls[0] < 9) ours[0].sa_sigaction(n, i, c);
            },
            &ours[0]);
        crash(1, 0);
        for (int again = 0; again < 2; again++) {
            install_again();
            crash(1, 0);
        }
        put(
            [](int n, siginfo_t *i, void *c) {
                if (++calls[1] < 9) ours[1].sa_sigaction(n, i, c);
            },
            &ours[1]);
        crash(1, 1);
        install_again();
        crash(1, 1);
        for (int inner : {1, 0}) {
            hak_crash_handler_remove();
            ASSERT_EQ(sigaction(SIGFPE, &ours[inner], nullptr), 0);
            EXPECT_EQ(hak_crash_handler_install(directory.c_str()), 0);
            crash(inner, 0);
        }
        hak_crash_handler_remove();
        raise(SIGFPE);
        EXPECT_EQ(first, 2);
        EXPECT_EQ(records(), crashes);
    }));
}

// A handler of the program's was put over ours and is gone: however often, the next installation has its record.
TEST_F(CrashBounds, InstalledAgainAfterAHandlerThatIsGone)
{
    EXPECT_TRUE(test::in_child([&] {
        signal(SIGFPE, SIG_IGN); // raised, it is ignored
        for (size_t again = 0; again < 4; again++) {
            EXPECT_EQ(hak_crash_handler_install(directory.c_str()), 0);
            EXPECT_EQ(records(), again);
            raise(SIGFPE);
            EXPECT_EQ(records(), again + 1);
            signal(SIGFPE, [](int) {});
            hak_crash_handler_remove();
            signal(SIGFPE, SIG_IGN);
        }
    }));
}

// A handler for sampled blocks alone writes no record. It forgets a bad free too, so that no later record names that.
TEST_F(CrashBounds, WithoutADirectoryAMisuseIsForgottenToo)
{
    EXPECT_TRUE(test::in_child([&] {
        static sigjmp_buf survived;
        struct sigaction action = {};
        action.sa_handler = [](int) { siglongjmp(survived, 1); };
        ASSERT_EQ(sigaction(SIGABRT, &action, nullptr), 0);
        ASSERT_TRUE(guard_start(2));
        crash_start_for_guards();
        guard_history history;
        testing::internal::CaptureStderr();
        if (sigsetjmp(survived, 1) == 0) guard_misused(guard_alloc(100), RECORD_FINDING_freed_twice);
        EXPECT_NE(testing::internal::GetCapturedStderr(), "");
        EXPECT_FALSE(guard_misuse(&history));
    }));
}

// RECORDS_MAX: a process that survives its crashes writes 16 records.
TEST_F(CrashBounds, RecordsOfOneProcess)
{
    const int most = 16;
    for (int count : {0, 1, most - 1, most, most + 1}) {
        EXPECT_TRUE(crashes(count, 0));
        EXPECT_EQ(records(), static_cast<size_t>(std::min(count, most))) << count;
        TearDown();
        SetUp();
    }
}

// NUMBERS_MAX: a process with an earlier one's id finds a free name if fewer than 1000 are taken, by records or by files
// that were to become records.
TEST_F(CrashBounds, NamesThatEarlierProcessesTook)
{
    const size_t most = 1000;
    for (auto [end, taken] : {std::pair(".crash", most - 1), {".crash", most}, {".crash.tmp", most}}) {
        EXPECT_TRUE(test::in_child([&, end = end, taken = taken] {
            install(0);
            const std::string process = std::to_string(getpid()),
                              name = directory + "/hakmem-" + process + "-" + process;
            for (size_t i = 0; i < taken; i++) std::ofstream(name + "-" + std::to_string(i) + end);
            ASSERT_EQ(records(), taken);
            testing::internal::CaptureStderr();
            errno = 0;
            raise(SIGFPE);
            const std::string said = testing::internal::GetCapturedStderr();
            EXPECT_EQ(said.find("-999.crash cannot be written: EEXIST") != said.npos, taken == most) << said;
            EXPECT_EQ(records(), most);
        })) << taken
            << " " << end;
        TearDown();
        SetUp();
    }
}

// MODULES_BYTES_MAX: of modules beyond it the record says that some are missing; which of them the library is it says still.
TEST_F(CrashBounds, ModulesBeyondTheBound)
{
    const std::string name = directory + "/" + std::string(200, 'm');
    auto fields_of = [&](int modules) {
        fields_by_id fields;
        EXPECT_TRUE(test::in_child([&] {
            install(0);
            for (int i = 0; i < modules; i++) { // at low addresses, so that they are the first in the list
                const std::string path = name + std::to_string(i);
                const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
                ASSERT_EQ(ftruncate(fd, 4096), 0);
                auto low = reinterpret_cast<void *>(0x10000000 + (uintptr_t)i * PAGE_BYTES);
                ASSERT_NE(mmap(low, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), MAP_FAILED)
                    << "is " << directory << " mounted without exec? TMPDIR names another place";
                close(fd);
            }
            raise(SIGFPE);
        }));
        for (const auto &file : std::filesystem::directory_iterator(directory))
            if (file.path().extension() == ".crash") fields = fields_of_record(file.path());
        TearDown();
        SetUp();
        return fields;
    };
    auto few = fields_of(2), many = fields_of(300);
    EXPECT_EQ(few.count(RECORD_cut), 0u);
    ASSERT_EQ(many.count(RECORD_cut), 1u);
    uint64_t cut;
    ASSERT_EQ(many[RECORD_cut][0].size(), sizeof cut);
    memcpy(&cut, many[RECORD_cut][0].data(), sizeof cut);
    EXPECT_EQ(cut, 1ull << RECORD_module);
    EXPECT_GT(many[RECORD_module].size(), 50u);
    EXPECT_LT(many[RECORD_module].size(), 300u);
    ASSERT_EQ(few[RECORD_library].size(), 1u);
    EXPECT_EQ(many[RECORD_library], few[RECORD_library]);
    EXPECT_EQ(many[RECORD_library_build_id], few[RECORD_library_build_id]);
    EXPECT_EQ(many[RECORD_program_build_id], few[RECORD_program_build_id]);
}

// If the program has closed its standard input, the record gets descriptor 0.
TEST_F(CrashBounds, DescriptorZero)
{
    EXPECT_TRUE(test::in_child([&] {
        install(0);
        close(STDIN_FILENO);
        raise(SIGFPE);
    }));
    ASSERT_EQ(records(), 1u);
    const std::filesystem::directory_entry record = *std::filesystem::directory_iterator(directory);
    EXPECT_EQ(record.path().extension(), ".crash") << "it has not the name of one that is complete";
    EXPECT_GT(record.file_size(), 0u);
}

// The limit on file sizes leaves no record behind, and its signal does not end a program that survives the first one.
TEST_F(CrashBounds, SizeOfAFile)
{
    EXPECT_TRUE(test::in_child([&] {
        install(0);
        const int null = open("/dev/null", O_WRONLY); // so that no report ends at the limit
        const int kept = dup(STDERR_FILENO), next = dup(null);
        close(next);
        dup2(null, STDERR_FILENO);
        rlimit limit = {}, before = {};
        ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = {1000, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        raise(SIGFPE);
        setrlimit(RLIMIT_FSIZE, &before);
        dup2(kept, STDERR_FILENO);
        EXPECT_EQ(dup(null), next) << "the file is still open";
    }));
    EXPECT_EQ(records(), 0u);
}

// A program that has written over all that the library keeps outside of its own data still leaves a record. A table
// that is written beyond its end does that if the library's own pages follow the blocks.
TEST_F(CrashBounds, AllThatTheLibraryMappedIsOverwritten)
{
    SKIP_UNDER_SANITIZER("its memory would be overwritten too");
    for (unsigned char fill : {0x00, 0x01, 0x5a, 0xde, 0xff}) {
        SCOPED_TRACE(static_cast<int>(fill));
        free(malloc(100));
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            if (hak_crash_handler_install(directory.c_str()) != 0) _exit(1);
            overwrite_what_is_mapped(fill);
            raise(SIGSEGV);
            _exit(2);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
        ASSERT_EQ(records(), 1u);
        const std::filesystem::path record = std::filesystem::directory_iterator(directory)->path();
        EXPECT_GT(fields_of_record(record)[RECORD_module].size(), 1u) << "the modules are not in it";
        std::filesystem::remove(record);
    }
}

// DIRECTORY_BYTES_MAX: the directory's name has at most 2048 bytes; PATH_BYTES_MAX has room for a record's name beyond.
TEST_F(CrashBounds, LengthOfTheDirectorysName)
{
    const size_t most = 2048;
    for (size_t length : {top.size(), top.size() + 2, most - 1, most, most + 1}) {
        directory = top;
        while (directory.size() < length) {
            size_t left = length - directory.size() - 1; // behind the slash
            directory += "/" + std::string(left <= 200 ? left : left == 201 ? 100 : 200, 'd');
        }
        ASSERT_EQ(directory.size(), length);
        SetUp();
        EXPECT_TRUE(crashes(1, length <= most ? 0 : ENAMETOOLONG));
        EXPECT_EQ(records(), length <= most ? 1u : 0u) << length;
        TearDown();
    }
    EXPECT_EQ(hak_crash_handler_install(""), ENOENT);
    EXPECT_EQ(hak_crash_handler_install(nullptr), ENOENT);
    EXPECT_EQ(hak_crash_handler_install("/dev/null"), ENOTDIR);
}
