// bounds_test.cc: the bounds of crash records. sanitizers/bounds.txt says where the tests of the other bounds are.
#include "base/test_support.h"

#include <csignal>
#include <filesystem>

#include "hakmem/crash.h"

extern "C" {
#include "crash/crash.h"
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
    // In a child, which survives what it raises: installs the handler and raises a signal for each record.
    bool crashes(int count, int expected)
    {
        return test::in_child([&] {
            struct sigaction action = {};
            action.sa_handler = [](int) {};
            ASSERT_EQ(sigaction(SIGFPE, &action, nullptr), 0);
            EXPECT_EQ(hak_crash_handler_install(directory.c_str()), expected);
            errno = 77;
            for (int i = 0; i < count; i++) raise(SIGFPE);
            EXPECT_EQ(errno, 77);
        });
    }
    const std::string top =
        std::filesystem::canonical(testing::TempDir()).string() + "/hakmem-bounds-" + std::to_string(getpid());
    std::string directory = top;
};

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
