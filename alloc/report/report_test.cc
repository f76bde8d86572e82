// report_test.cc: the text of reports, and the two settings.
#include "base/test_support.h"

#include <csetjmp>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

extern "C" {
#include "base/hooks.h"
#include "debug/explain_next.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"
}

namespace {

std::string of(const text &text)
{
    return std::string(text.bytes, text.length);
}

} // namespace

TEST(Report, Numbers)
{
    char buffer[200];
    text text = {buffer, sizeof buffer, 0};
    void *const to = reinterpret_cast<void *>(0xabc);
    text_print(&text, "%u %lu %ld %#x %#lx %p", 0U, UINT64_MAX, INT64_MIN, 0U, 0x1f0UL, to);
    EXPECT_EQ(of(text), "0 18446744073709551615 -9223372036854775808 0x0 0x1f0 0x0000000000000abc");
    text_print(&text, "; %d%%, %d, %u, %x, %zu%s|", INT_MIN, -7, UINT_MAX, 0xbeefU, SIZE_MAX, " bytes");
    EXPECT_TRUE(of(text).ends_with("; -2147483648%, -7, 4294967295, beef, 18446744073709551615 bytes|"));
}

TEST(Report, AStringIsCutOffBeforeItsZero)
{
    for (size_t size = 1; size < 8; size++) { // with its zero there are 7 bytes
        char buffer[] = {'#', '#', '#', '#', '#', '#', '#', '#'};
        EXPECT_EQ(text_string(buffer, size, "%s-%d", "abc", 45), buffer);
        const std::string begin = std::string("abc-45").substr(0, size - 1);
        EXPECT_EQ(std::string(buffer, 8), begin + '\0' + std::string(8 - size, '#'));
    }
}

TEST(Report, WhatDoesNotFitIsCutOff)
{
    char buffer[11] = {};
    text text = {buffer, 10, 0};
    for (int i = 0; i < 100; i++) text_add(&text, "abc");
    EXPECT_EQ(of(text), "abcabcabca");
    text_print(&text, "%d%p", 5, static_cast<void *>(buffer));
    EXPECT_EQ(of(text), "abcabcabca");
    EXPECT_EQ(buffer[10], '\0');
}

TEST(Report, WordsAreQuotedForAShell)
{
    for (const auto &[word, quoted] : {std::pair("/usr/bin/x-1_2", "/usr/bin/x-1_2"), std::pair("", "''"),
                                       std::pair("a b", "'a b'"), std::pair("it's $1", "'it'\\''s $1'")}) {
        char buffer[100];
        text text = {buffer, sizeof buffer, 0};
        text_add_word(&text, word);
        EXPECT_EQ(of(text), quoted);
    }
}

TEST(Report, SettingsAreTwoAndTakeTheirValuesAlone)
{
    for (const char *good : {"FAILFAST=abort", "FAILFAST=report", "FAILFAST_LEVEL=0", "FAILFAST_LEVEL=3"})
        EXPECT_EQ(failfast_settings_check(good), SETTINGS_GOOD) << good;
    for (const char *bad : {"FAILFAST=", "FAILFAST=ABORT", "FAILFAST=reports", "FAILFAST_LEVEL=", "FAILFAST_LEVEL=4",
                            "FAILFAST_LEVEL=-1", "FAILFAST_LEVEL=11", "FAILFAST_LEVEL=two"})
        EXPECT_EQ(failfast_settings_check(bad), SETTINGS_BAD) << bad;
    for (const char *other : {"STATS=1", "FAILFAS=abort", "FAILFAST", "FAILFAST_LEVELS=1", "FAILFASTER=1"})
        EXPECT_EQ(failfast_settings_check(other), SETTINGS_OTHER) << other;
}

// tests.cmake sets HAKMEM_FAILFAST_LEVEL=1 for this program.
TEST(Report, TheLevelComesFromTheEnvironmentOfTheProcessAndStays)
{
    if (getenv("HAKMEM_FAILFAST_LEVEL") == nullptr) GTEST_SKIP() << "HAKMEM_FAILFAST_LEVEL=1 is not set";
    EXPECT_EQ(failfast_level(), LEVEL_LAYOUT);
    setenv("HAKMEM_FAILFAST_LEVEL", "3", 1);
    EXPECT_EQ(failfast_level(), LEVEL_LAYOUT);
    EXPECT_EQ(failfast_settings_read(), LEVEL_LAYOUT) << "of the environment that the process began with";
    EXPECT_FALSE(failfast_goes_on());
    setenv("HAKMEM_FAILFAST_LEVEL", "1", 1);
}

// --- bounds ---

namespace {

// Runs this program again, for one disabled test, with exactly these words and this environment, and behind it what
// chooses a mutant (sanitizers/mutants); what it prints.
std::string said_again(const std::string &test, const std::string &word, const std::vector<std::string> &environment)
{
    std::string filter = "--gtest_filter=" + test;
    const char *words[] = {"x", filter.c_str(), "--gtest_also_run_disabled_tests", word.c_str(), nullptr};
    std::vector<char *> entries;
    for (const std::string &each : environment) entries.push_back(const_cast<char *>(each.c_str()));
    for (char **each = environ; *each != nullptr; each++)
        if (strncmp(*each, "HAKMEM_MUTANT", 13) == 0) entries.push_back(*each);
    entries.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execve("/proc/self/exe", const_cast<char **>(words), entries.data());
        _exit(127);
    }
    close(ends[1]);
    std::string said;
    char bytes[4096];
    for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;) said.append(bytes, static_cast<size_t>(got));
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    EXPECT_EQ(status, 0) << said;
    return said;
}

bool has(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

} // namespace

// A signal handler may fail a check while its thread writes a report.
TEST(ReportDeathTest, ACheckThatFailsDuringAReportEndsTheProcess)
{
    EXPECT_EXIT(
        {
            alarm(20);
            hooks.failfast_explain = [](text *, uint32_t, failfast_find *) { failfast(FAILFAST_law, nullptr, ""); };
            failfast(FAILFAST_law, nullptr, "");
        },
        testing::KilledBySignal(SIGABRT), "");
}

// If nothing explains a find, as in the release library, the thread has its number.
TEST(ReportDeathTest, TheThreadIsNamed)
{
    EXPECT_EXIT(
        {
            hooks.failfast_explain = nullptr;
            failfast(FAILFAST_law, nullptr, "a detail");
        },
        testing::KilledBySignal(SIGABRT), "a detail\nhakmem:   found by thread [1-9][0-9]*\n");
}

TEST(ReportAgain, DISABLED_Level)
{
    printf("level %d\n", failfast_level());
}

TEST(ReportAgain, DISABLED_Next)
{
    static char buffer[20000];
    text text = {buffer, sizeof buffer, 0};
    explain_next_start();
    explain_next(&text, FAILFAST_law, nullptr, 0);
    printf("%s\n", of(text).c_str());
}

// ENTRY_BYTES_MAX (64) of settings.c, and its chunks of 1024 bytes: entries before the level's.
TEST(Report, TheLevelIsFoundBehindEntriesOfAnyLength)
{
    SKIP_UNDER_SANITIZER("the program that runs again would print more");
    for (size_t length : {0u, 1u, 62u, 63u, 64u, 65u, 999u, 1000u, 1001u, 1023u, 1024u, 1025u, 3000u}) {
        std::vector<std::string> environment = {std::string(length, 'P'), "HAKMEM_FAILFAST_LEVEL=3"};
        EXPECT_TRUE(has(said_again("ReportAgain.DISABLED_Level", "", environment), "level 3")) << length;
    }
    EXPECT_TRUE(has(said_again("ReportAgain.DISABLED_Level", "", {}), "level 2")) << "the default";
}

// If no file can be opened, the environment that the program has changed serves.
static int level_without_files()
{
    rlimit before, none;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = {0, before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    int level = failfast_settings_read();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    return level;
}

TEST(Report, WhereProcCannotBeReadTheProgramsEnvironmentServes)
{
    EXPECT_TRUE(test::in_child([] {
        setenv("HAKMEM_FAILFAST_LEVEL", "3", 1);
        errno = 7;
        EXPECT_EQ(level_without_files(), 3);
        EXPECT_EQ(errno, 7);
    }));
}

// A read that fails for good ends the reading, and nothing is known of the environment.
TEST(Report, WhereProcFailsTheLevelIsTheDefault)
{
    if (!test::in_child([] { EXPECT_TRUE(test::refuse_call(SYS_read, EIO)); }))
        GTEST_SKIP() << "the system takes no seccomp filter";
    const auto body = [] {
        ASSERT_TRUE(test::refuse_call(SYS_read, EIO));
        errno = 7;
        EXPECT_EQ(failfast_settings_read(), LEVEL_STANDARD);
        EXPECT_EQ(errno, 7);
    };
    EXPECT_TRUE(test::in_child(body, 20));
}

// A report asks the system for this and that, and the program may go on from it.
TEST(Report, AReportKeepsErrno)
{
    EXPECT_TRUE(test::in_child([] {
        setenv("HAKMEM_FAILFAST", "report", 1);
        level_without_files();
        ASSERT_TRUE(failfast_goes_on());
        hooks.failfast_explain = [](text *, uint32_t, failfast_find *) { errno = ESRCH; };
        testing::internal::CaptureStderr();
        errno = 77;
        EXPECT_FALSE(failfast_refused(FAILFAST_law, nullptr, "of a test"));
        EXPECT_EQ(errno, 77);
        EXPECT_FALSE(failfast_refused_bytes(FAILFAST_law, nullptr, "of a test", {&hooks, 1}));
        EXPECT_EQ(errno, 77);
        testing::internal::GetCapturedStderr();
    }));
}

// A thread that writes its report into a full pipe keeps the buffer until the pipe is read, whatever errno another thread
// comes with, and whether or not that one may ask for the first.
static void wait_for_a_report(bool may_ask)
{
    EXPECT_TRUE(test::in_child([may_ask] {
        setenv("HAKMEM_FAILFAST", "report", 1);
        level_without_files();
        ASSERT_TRUE(failfast_goes_on());
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const auto room = static_cast<size_t>(fcntl(ends[1], F_SETPIPE_SZ, 4096));
        ASSERT_EQ(write(ends[1], std::string(room, '-').c_str(), room), static_cast<ssize_t>(room));
        dup2(ends[1], STDERR_FILENO);
        if (!may_ask) ASSERT_TRUE(test::refuse_call(SYS_tgkill, EPERM));
        std::vector<std::thread> threads;
        for (const char *detail : {"of a test: the first", "of a test: the second"}) {
            threads.emplace_back([detail] {
                errno = ESRCH;
                failfast_refused(FAILFAST_law, &detail, detail);
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(100)); // until it waits
        }
        std::string told;
        for (size_t at = 0, reports = 0; reports < 2;) {
            char bytes[4096];
            ssize_t got = read(ends[0], bytes, sizeof bytes);
            ASSERT_GT(got, 0);
            told.append(bytes, static_cast<size_t>(got));
            for (size_t end; (end = told.find("does nothing", at)) != std::string::npos; at = end + 1) reports++;
        }
        for (const char *detail : {"of a test: the first", "of a test: the second"})
            EXPECT_TRUE(has(told, detail)) << told.substr(room);
        for (std::thread &each : threads) each.join();
    }));
}

TEST(Report, AThreadWaitsForTheReportOfAnother)
{
    SKIP_UNDER_SANITIZER("its runtime starts no thread in a forked child");
    wait_for_a_report(true);
}

TEST(Report, AThreadWaitsWhereItMayNotAskForAnother)
{
    SKIP_UNDER_SANITIZER("its runtime starts no thread in a forked child");
    if (!test::in_child([] { EXPECT_TRUE(test::refuse_call(SYS_tgkill, EPERM)); }))
        GTEST_SKIP() << "the system takes no seccomp filter";
    wait_for_a_report(false);
}

// A child that is forked during another thread's report has the buffer, though that thread lives on in its parent.
TEST(Report, AChildWaitsForNoThreadOfItsParent)
{
    SKIP_UNDER_SANITIZER("its runtime starts no thread in a forked child");
    EXPECT_TRUE(test::in_child([] {
        setenv("HAKMEM_FAILFAST", "report", 1);
        level_without_files();
        ASSERT_TRUE(failfast_goes_on());
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        static std::atomic<bool> reports{false}, may_end{false};
        hooks.failfast_explain = [](text *, uint32_t, failfast_find *) {
            reports = true;
            while (!may_end) std::this_thread::yield();
        };
        std::thread other([] { failfast_refused(FAILFAST_law, nullptr, "of a thread"); });
        while (!reports) std::this_thread::yield();
        EXPECT_TRUE(test::in_child(
            [] {
                may_end = true;
                failfast_refused(FAILFAST_law, nullptr, "of a child");
            },
            60));
        may_end = true;
        other.join();
    }));
}

// ENTRY_BYTES_MAX (512) of explain_next.c, the entry's zero byte included.
TEST(Report, ThePreloadedLibraryIsNamedUpToItsBound)
{
    SKIP_UNDER_SANITIZER("the program that runs again would print more");
    const size_t most = 512, name = strlen("LD_PRELOAD=");
    for (size_t before : {0u, 1u, 510u, 511u, 512u, 513u, 2000u})
        for (size_t entry : {name + 4, most - 2, most - 1, most}) { // without its zero byte
            std::string library = "/no/" + std::string(entry - name - 4, 'l');
            std::string said =
                said_again("ReportAgain.DISABLED_Next", "", {std::string(before, 'P'), "LD_PRELOAD=" + library, "A=b"});
            EXPECT_EQ(has(said, "LD_PRELOAD " + library + "' -ex run"), entry < most) << before << " " << entry;
            EXPECT_EQ(has(said, "LD_PRELOAD"), entry < most) << before << " " << entry;
        }
    EXPECT_FALSE(has(said_again("ReportAgain.DISABLED_Next", "", {"LD_PRELOA=x", "A=LD_PRELOAD=y"}), "LD_PRELOAD"));
}

// COMMAND_BYTES_MAX: a command of 2048 bytes or more is not repeated.
TEST(Report, TheCommandIsRepeatedUpToItsBound)
{
    SKIP_UNDER_SANITIZER("the program that runs again would print more");
    const std::string others = std::string("x") + '\0' + "--gtest_filter=ReportAgain.DISABLED_Next" + '\0' +
                               "--gtest_also_run_disabled_tests" + '\0';
    const size_t most = 2048;
    for (size_t length : {others.size() + 1, others.size() + 2, most - 1, most, most + 1}) {
        std::string word(length - others.size() - 1, 'w');
        std::string said = said_again("ReportAgain.DISABLED_Next", word, {});
        EXPECT_EQ(has(said, "gdb -ex run --args x --gtest_filter"), length < most) << length;
        EXPECT_EQ(has(said, " " + (word.empty() ? "''" : word) + "\n"), length < most) << length;
        EXPECT_EQ(has(said, "run again under a debugger"), length >= most) << length;
    }
}

namespace {

thread_local sigjmp_buf from_abort;
thread_local const failfast_find *kept_find;

void on_abort(int)
{
    const char *report;
    size_t bytes = 0;
    kept_find = failfast_kept(&report, &bytes);
    if (kept_find != nullptr && (bytes == 0 || strncmp(report, "hakmem: failfast: law", 21) != 0)) _exit(9);
    siglongjmp(from_abort, 1);
}

// Whether the find that ends this thread is kept for a crash record.
bool is_kept(void *address)
{
    if (sigsetjmp(from_abort, 1) == 0) failfast(FAILFAST_law, address, "of a test");
    return kept_find != nullptr && kept_find->address == address && kept_find->name == std::string("law");
}

} // namespace

// KEPT_MAX: the finds of four threads are kept, each for the thread that it ended.
TEST(Report, FindsAreKeptUpToTheirBound)
{
    const char *report;
    size_t bytes;
    EXPECT_EQ(failfast_kept(&report, &bytes), nullptr) << "none yet";
    SKIP_UNDER_SANITIZER("its runtime ends the process at the first abort");
    EXPECT_TRUE(test::in_child([] {
        const int most = 4;
        struct sigaction action = {};
        action.sa_handler = on_abort;
        ASSERT_EQ(sigaction(SIGABRT, &action, nullptr), 0);
        std::atomic<int> turn = 0;
        std::vector<std::thread> threads; // all live until the end, so that no id is used twice
        for (int i = 0; i <= most + 1; i++)
            threads.emplace_back([&turn, i] {
                while (turn < i) std::this_thread::yield();
                char place[2];
                EXPECT_EQ(is_kept(place), i < most) << i;
                EXPECT_EQ(is_kept(place + 1), i < most) << i << ": its own place, again";
                failfast_kept_forget();
                const char *none;
                size_t none_bytes;
                EXPECT_EQ(failfast_kept(&none, &none_bytes), nullptr);
                EXPECT_EQ(is_kept(place), i < most) << i << ", after it was forgotten";
                turn++;
                while (turn <= most + 1) std::this_thread::yield();
            });
        for (std::thread &each : threads) each.join();
    }));
}
