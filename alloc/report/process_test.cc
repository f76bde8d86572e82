// process_test.cc: what a text says of the process that writes it, in units for people, and to which descriptor it goes.
#include "base/test_support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <string>
#include <thread>

extern "C" {
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "report/first_error.h"
#include "report/output.h"
#include "report/process.h"
#include "report/writer.h"
}

namespace {

class Process : public ::testing::Test {};

// Each unit from its first amount to its last; the next one begins where rounding would show 1024.0.
TEST_F(Process, AmountsForPeople)
{
    const auto amount = [](uint64_t bytes) {
        char text[AMOUNT_BYTES];
        return std::string(amount_text(text, bytes));
    };
    EXPECT_EQ(amount(0), "0 B");
    EXPECT_EQ(amount(1023), "1023 B");
    EXPECT_EQ(amount(UINT64_MAX), "16.0 EiB");
    const std::string units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    for (int unit = 0; unit < 6; unit++) {
        const uint64_t one = 1ull << (10 * unit + 10);
        EXPECT_EQ(amount(one), "1.0 " + units[unit]);
        EXPECT_EQ(amount(one + one / 2), "1.5 " + units[unit]);
        if (unit == 5) break;
        EXPECT_EQ(amount(one / 1024 * 1048524 - 1), "1023.9 " + units[unit]);
        EXPECT_EQ(amount(one / 1024 * 1048524), "1.0 " + units[unit + 1]);
    }
    // Between them the text is within a twentieth of the unit.
    for (uint64_t bytes = 1024; bytes < 1ull << 62; bytes += bytes / 97) {
        const std::string text = amount(bytes);
        const size_t space = text.find(' ');
        const size_t unit = (size_t)(std::find(units, units + 6, text.substr(space + 1)) - units);
        EXPECT_NEAR(std::stod(text), (double)bytes / (double)(1ull << (10 * unit + 10)), 0.051) << bytes;
    }
}

// The kernel's own peak lags behind its count of what is resident, by a page or many.
TEST_F(Process, ThePeakIsNeverBelowWhatIsResident)
{
    EXPECT_TRUE(test::in_child([] {
        const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = 3000;
        char *at = static_cast<char *>(
            mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (size_t i = 0; i < pages; i++) {
            at[i * page_bytes] = 1;
            const struct process_memory memory = process_memory();
            ASSERT_NE(memory.resident_bytes, 0u);
            ASSERT_GE(memory.resident_peak_bytes, memory.resident_bytes) << i;
        }
    }));
}

// The name is one of a file, and that of the start; each day from 1970 to 2103 has the date that libc says.
TEST_F(Process, AProcessKnowsItsNameAndTime)
{
    EXPECT_TRUE(test::in_child([] {
        char name[PROCESS_NAME_BYTES], time_text[PROCESS_TIME_BYTES];
        char odd[] = "a b\"/\\%";
        std::string longest(200, 'x');
        const auto name_after_start = [&](char *called) {
            program_invocation_short_name = called;
            process_start();
            program_invocation_short_name = longest.data(); // as servers write what they do over their arguments
            process_name(name);
            return std::string(name);
        };
        EXPECT_EQ(name_after_start(odd), "a_b____");
        EXPECT_EQ(name_after_start(longest.data()), std::string(PROCESS_NAME_BYTES - 1, 'x'));
        EXPECT_EQ(name_after_start(odd + 7), "_");
        char earliest[PROCESS_TIME_BYTES];
        process_time_text(earliest, (uint64_t)time(nullptr));
        process_time(time_text);
        EXPECT_GE(std::string(time_text), earliest);
        for (time_t at = 0; at < 4200000000; at += 86399) { // each day at another time
            tm parts = {};
            char wanted[PROCESS_TIME_BYTES];
            strftime(wanted, sizeof wanted, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &parts));
            process_time_text(time_text, (uint64_t)at);
            ASSERT_STREQ(time_text, wanted);
        }
    }));
}

// A child's age begins at the fork, whatever else of it has been asked before.
TEST_F(Process, AChildsAgeIsItsOwn)
{
    hak_free(hak_malloc(1)); // the heap has its handler of fork
    usleep(5000);
    for (bool is_asked : {false, true}) {
        if (is_asked) process_number();
        const uint64_t before_ms = os_now_ms();
        EXPECT_GE(process_age_ms(), 5u);
        EXPECT_TRUE(test::in_child([&] { EXPECT_LE(process_age_ms(), os_now_ms() - before_ms); }));
    }
}

// Standard error is found as long as the program has not closed it in all places, and never taken for another file.
TEST_F(Process, StandardErrorOfTheStart)
{
    EXPECT_TRUE(test::in_child([] {
        int ends[2], other[2];
        ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
        ASSERT_EQ(pipe2(other, O_NONBLOCK), 0);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        std::string text(1 << 16, 0);
        const auto write_text = [] { os_write_all(first_error_fd(), std::string(600, 'x').c_str(), 600); };
        const auto arrived = [&](int fd) { return read(fd, text.data(), text.size()) > 500; };
        write_text(); // before it has started: to standard error as it is
        EXPECT_TRUE(arrived(ends[0]));
        first_error_keep();
        EXPECT_EQ(fcntl(100, F_GETFD), FD_CLOEXEC);
        dup2(STDERR_FILENO, 100); // a program that uses the number for the same file
        if (pid_t keeper = fork(); keeper == 0) {
            _exit(fcntl(100, F_GETFD) == -1);
        } else {
            int kept = 1;
            waitpid(keeper, &kept, 0);
            EXPECT_EQ(kept, 0);
        }
        fcntl(100, F_SETFD, FD_CLOEXEC);
        write_text();
        EXPECT_TRUE(arrived(ends[0]));
        close(STDERR_FILENO); // as ls and sort do
        write_text();
        EXPECT_TRUE(arrived(ends[0]));
        dup2(other[1], STDERR_FILENO); // the number means another file now
        write_text();
        EXPECT_TRUE(arrived(ends[0]));
        EXPECT_FALSE(arrived(other[0]));
        const pid_t child = fork();
        if (child == 0) { // has given the second one up
            if (fcntl(100, F_GETFD) != -1) _exit(1);
            write_text();
            _exit(arrived(other[0]) || arrived(ends[0]) ? 2 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        close(100); // a program that closes all
        write_text();
        EXPECT_FALSE(arrived(other[0]));
        EXPECT_EQ(read(ends[0], text.data(), 1), 0); // the last writer of the pipe is gone
    }));
}

// A copy of the process writes; one that waits for a lock which its parent's thread holds is ended.
TEST_F(Process, AJobInACopy)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    int changed = 0;
    struct {
        int fd, *changed;
    } context = {ends[1], &changed};
    writer_job_fn *job = [](void *of) {
        auto *it = static_cast<decltype(context) *>(of);
        *it->changed = 1; // in the copy
        os_write_all(it->fd, "done", 4);
    };
    errno = 5;
    writer_run_in_copy(job, &context);
    EXPECT_EQ(errno, 5);
    char text[8] = "";
    EXPECT_EQ(read(ends[0], text, sizeof text), 4);
    EXPECT_EQ(changed, 0);
    EXPECT_EQ(waitpid(-1, nullptr, __WALL), -1); // it has been waited for
    static std::atomic<int> step;
    step = 0;
    std::thread holder([] {
        writer_run(
            [](void *) {
                step = 1;
                while (step == 1) usleep(1000);
            },
            nullptr);
    });
    while (step == 0) usleep(1000);
    writer_run_in_copy(job, &context); // its lock is not released there
    EXPECT_EQ(read(ends[0], text, sizeof text), -1);
    EXPECT_EQ(waitpid(-1, nullptr, __WALL), -1);
    step = 2;
    holder.join();
    close(ends[0]);
    close(ends[1]);
}

} // namespace
