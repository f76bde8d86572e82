// peek_test.cc: mapped memory is read, unmapped memory is refused, and nothing faults.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

extern "C" {
#include "os/peek.h"
}

namespace {

// Makes the system refuse process_vm_readv, as it does in some containers. False where it takes no filters.
bool refuse_reading()
{
    sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_readv},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

using Two = std::pair<int, int>;

Two next_descriptors()
{
    Two next;
    next.first = dup(STDERR_FILENO);
    next.second = dup(STDERR_FILENO);
    close(next.first);
    close(next.second);
    return next;
}

// The number of the first step that fails, 0 if none does. A number, since the child can report only its exit status.
int peek_without_the_call(char *pages)
{
    constexpr size_t size = 3 * 4096; // more than a pipe takes at once
    static char out[size];
    const Two before = next_descriptors();
    if (!refuse_reading()) return 77;
    for (size_t i = 0; i < size; i++) pages[i] = static_cast<char>(i * 7 + i / 4096);
    errno = 77;
    if (!os_peek(pages, out, size) || memcmp(out, pages, size) != 0) return 1;
    if (!os_peek(pages + size - 16, out, 16) || memcmp(out, pages + size - 16, 16) != 0) return 2;
    if (os_peek(pages + size - 8, out, 16)) return 3; // half of it is not readable
    if (os_peek(pages + size, out, 16) || os_peek(nullptr, out, 16)) return 4;
    // A pipe takes all of a part or none of it.
    memset(out, 'o', size);
    if (os_peek(pages + size - 4096 - 8, out, 2 * 4096)) return 9;
    if (memcmp(out, pages + size - 4096 - 8, 4096) != 0) return 10;
    for (size_t i = 4096; i < 2 * 4096; i++)
        if (out[i] != '\0') return 11;
    if (errno != 77) return 5;
    // Descriptors are closed again; with no descriptor left, nothing is read.
    if (next_descriptors() != before) return 8;
    rlim_t next = static_cast<rlim_t>(before.first);
    rlimit none = {next, next};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 6;
    return os_peek(pages, out, 16) ? 7 : 0;
}

TEST(Peek, WhereTheSystemRefusesTheCall)
{
    void *mapped = mmap(nullptr, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    char *pages = static_cast<char *>(mapped);
    ASSERT_EQ(mprotect(pages + 3 * 4096, 4096, PROT_NONE), 0);
    pid_t child = fork();
    if (child == 0) _exit(peek_without_the_call(pages));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    munmap(pages, 4 * 4096);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "the system takes no seccomp filter";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the step of peek_without_the_call";
}

TEST(Peek, ReadsWhatIsThere)
{
    char nothing = 0;
    EXPECT_TRUE(os_peek(&nothing, &nothing, 0));
    const char text[] = "what is there";
    char out[sizeof text] = {};
    EXPECT_TRUE(os_peek(text, out, sizeof out));
    EXPECT_STREQ(out, text);
    uint64_t word = 0x0123456789abcdef;
    bool readable = false;
    EXPECT_EQ(os_peek_word(&word, &readable), word);
    EXPECT_TRUE(readable);
}

// What was read up to there, and zeros.
TEST(Peek, ZerosWhereItCannotBeRead)
{
    void *mapped = mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    char *pages = static_cast<char *>(mapped);
    memset(pages, 'p', 4096);
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    for (size_t readable : {8, 0}) {
        char out[16];
        memset(out, 'o', sizeof out);
        EXPECT_FALSE(os_peek(pages + 4096 - readable, out, 16));
        EXPECT_EQ(std::string(out, 16), std::string(readable, 'p') + std::string(16 - readable, '\0'));
    }
    munmap(pages, 2 * 4096);
}

TEST(Peek, RefusesWhatIsNot)
{
    void *mapped = mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    char *pages = static_cast<char *>(mapped);
    ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    char out[16];
    errno = 77;
    EXPECT_TRUE(os_peek(pages + 4096 - 16, out, 16));
    EXPECT_FALSE(os_peek(pages + 4096 - 8, out, 16)) << "half of it is not readable";
    EXPECT_FALSE(os_peek(pages + 4096, out, 16));
    EXPECT_FALSE(os_peek(nullptr, out, 16));
    EXPECT_FALSE(os_peek(reinterpret_cast<void *>(0xdeadbeefdeadbeef), out, 16)) << "no address of this processor";
    EXPECT_FALSE(os_peek(reinterpret_cast<void *>(UINTPTR_MAX - 3), out, 16));
    EXPECT_EQ(errno, 77);
    bool readable = true;
    EXPECT_EQ(os_peek_word(pages + 4096, &readable), 0u);
    EXPECT_FALSE(readable);
    munmap(pages, 2 * 4096);
}

}  // namespace
