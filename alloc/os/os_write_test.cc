// os_write_test.cc: what os.h writes to files and to standard error, in spite of signals and limits.
#include "base/test_support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <chrono>

extern "C" {
#include "os/os.h"
}

namespace {

class OsWrite : public testing::Test {
  protected:
    static constexpr int ERRNO_BEFORE = 4711;
    void SetUp() override { errno = ERRNO_BEFORE; }
    void TearDown() override { EXPECT_EQ(errno, ERRNO_BEFORE) << "a call changed errno"; }
};

} // namespace

TEST_F(OsWrite, WriteError)
{
    testing::internal::CaptureStderr();
    os_write_error("one\ntwo", 7);
    os_write_error("", 0);
    std::string written = testing::internal::GetCapturedStderr();
    EXPECT_EQ(written, "one\ntwo");
    errno = ERRNO_BEFORE;
    int standard_error = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    os_write_error("lost", 4);
    EXPECT_EQ(errno, ERRNO_BEFORE);
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
}

// A signal may end a write before the end of the text. The rest follows.
TEST_F(OsWrite, WritesToTheEnd)
{
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {};
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    for (bool is_error : {true, false}) {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const auto room = static_cast<size_t>(fcntl(ends[1], F_SETPIPE_SZ, 4096));
        std::string text, told;
        while (text.size() < 3 * room) text += std::to_string(text.size()) + " ";
        const int standard_error = dup(STDERR_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        std::thread writer([&text, is_error] {
            if (is_error) os_write_error(text.data(), text.size());
            else EXPECT_EQ(os_write_all(STDERR_FILENO, text.data(), text.size()), 0);
            close(STDERR_FILENO); // so that the reader comes to an end
        });
        int waits = 0;
        while (waits < static_cast<int>(room) && ioctl(ends[0], FIONREAD, &waits) == 0) std::this_thread::yield();
        for (int i = 0; i < 2; i++) { // the second comes where a write has written nothing yet
            pthread_kill(writer.native_handle(), SIGUSR1); // what it has written is in the pipe, which is full
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        char bytes[4096];
        for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;) told.append(bytes, static_cast<size_t>(got));
        writer.join();
        dup2(standard_error, STDERR_FILENO);
        close(standard_error);
        close(ends[0]);
        EXPECT_EQ(told, text);
    }
    sigaction(SIGUSR1, &before, nullptr);
    errno = ERRNO_BEFORE;
}

// A write that also sends a signal fails, and the signal does not come: at the limit on file sizes, and to a pipe that nobody
// reads. One that the program blocks, and that has come before, stays.
TEST_F(OsWrite, AWriteThatSendsASignalIsAnError)
{
    struct {
        int signal, error;
        off_t room; // what is written
    } const cases[] = {{SIGXFSZ, EFBIG, 1000}, {SIGPIPE, EPIPE, 0}};
    for (const auto &[signal_number, error, room] : cases)
        for (int waiting : {0, SIGXFSZ, SIGPIPE})
            EXPECT_TRUE(test::in_child([&] {
                sigset_t one, mask, pending;
                sigemptyset(&one);
                if (waiting != 0) sigaddset(&one, waiting);
                for (int each : {SIGXFSZ, SIGPIPE}) signal(each, SIG_DFL);
                pthread_sigmask(SIG_SETMASK, &one, nullptr);
                if (waiting != 0) raise(waiting);
                char path[] = "/tmp/hakmem-limit-XXXXXX";
                int fd = mkstemp(path);
                const int standard_error = dup(STDERR_FILENO);
                unlink(path);
                rlimit before = {};
                ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
                const rlimit limit = {1000, before.rlim_max};
                ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
                if (signal_number == SIGPIPE) {
                    int ends[2];
                    ASSERT_EQ(pipe(ends), 0);
                    close(ends[0]);
                    dup2(ends[1], fd);
                    close(ends[1]);
                }
                const std::string text(1001, 'x');
                errno = ERRNO_BEFORE;
                EXPECT_EQ(os_write_all(fd, text.data(), text.size()), error);
                EXPECT_EQ(errno, ERRNO_BEFORE);
                dup2(fd, STDERR_FILENO);
                os_write_error("lost", 4);
                EXPECT_EQ(errno, ERRNO_BEFORE);
                dup2(standard_error, STDERR_FILENO);
                setrlimit(RLIMIT_FSIZE, &before);
                if (room != 0) EXPECT_EQ(lseek(fd, 0, SEEK_END), room) << "what there was room for";
                pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                sigpending(&pending);
                for (int each : {SIGXFSZ, SIGPIPE}) {
                    EXPECT_EQ(sigismember(&mask, each), each == waiting) << each;
                    EXPECT_EQ(sigismember(&pending, each), each == waiting) << each;
                }
            }));
    errno = ERRNO_BEFORE;
}
