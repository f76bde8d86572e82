// test_support.cc: loops over all bytes of a block, which have a file of their own since it is optimised even where the
// tests are not; a refused call; and laws that hold after each test, whatever it does.
#include "base/test_support.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include <filesystem>

extern "C" __attribute__((weak)) const char *gnu_get_libc_version(void);

namespace test {

bool refuse_call(long call, int error)
{
    sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<uint32_t>(call)},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog filter = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}

void pattern_fill(void *block, size_t size_bytes, uint64_t stamp, size_t step)
{
    auto *bytes = static_cast<volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step) bytes[i] = pattern_byte(stamp, i);
    if (size_bytes > 0) bytes[size_bytes - 1] = pattern_byte(stamp, size_bytes - 1);
}

bool pattern_holds(const void *block, size_t size_bytes, uint64_t stamp, size_t step)
{
    auto *bytes = static_cast<const volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step)
        if (bytes[i] != pattern_byte(stamp, i)) return false;
    return true;
}

bool is_zero(const void *block, size_t size_bytes, size_t step)
{
    auto *bytes = static_cast<const volatile unsigned char *>(block);
    for (size_t i = 0; i < size_bytes; i += step)
        if (bytes[i] != 0) return false;
    return size_bytes == 0 || bytes[size_bytes - 1] == 0;
}

namespace {

size_t entries(const char *folder)
{
    std::error_code none;
    auto all = std::filesystem::directory_iterator(folder, none);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// What a process has few of, and what a test must give back: a leak of one per test shows at once.
struct Held {
    size_t descriptors = entries("/proc/self/fd");
    size_t threads = entries("/proc/self/task");
    pthread_key_t lowest_free_key = 0;
    stack_t signal_stack = {};
    sigset_t blocked = {};

    Held()
    {
        // Only glibc hands out the lowest; musl the next one.
        if (gnu_get_libc_version == nullptr || pthread_key_create(&lowest_free_key, nullptr) != 0) lowest_free_key = 0;
        else pthread_key_delete(lowest_free_key);
        sigaltstack(nullptr, &signal_stack);
        pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    }
};

class Laws : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo &) override
    {
        close(STDIN_FILENO); // a program may run without it: then the first file that is opened is descriptor 0
        before_ = Held();
    }
    void OnTestEnd(const testing::TestInfo &test) override
    {
        Held after;
        // A detached thread, or one that was just joined, may not be gone from /proc yet.
        for (int i = 0; i < 200 && sanitizer() == nullptr && after.threads > before_.threads; i++) {
            timespec wait = {0, 10'000'000};
            nanosleep(&wait, nullptr);
            after = Held();
        }
        if (sanitizer() == nullptr) { // a sanitizer has files and threads of its own
            EXPECT_EQ(after.descriptors, before_.descriptors) << test.name() << " left a file open";
            EXPECT_LE(after.threads, before_.threads) << test.name() << " left a thread";
        }
        EXPECT_EQ(after.lowest_free_key, before_.lowest_free_key) << test.name() << " left a pthread_key_t";
        EXPECT_EQ(after.signal_stack.ss_sp, before_.signal_stack.ss_sp) << test.name() << " left a signal stack";
        EXPECT_EQ(after.signal_stack.ss_flags, before_.signal_stack.ss_flags) << test.name();
        for (int number = 1; number < NSIG; number++)
            EXPECT_EQ(sigismember(&after.blocked, number), sigismember(&before_.blocked, number))
                << test.name() << " left signal " << number << " in another state";
    }
    Held before_;
};

[[maybe_unused]] const bool laws_are_asked = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new Laws);
    return true;
}();

} // namespace
} // namespace test
