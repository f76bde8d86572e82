// os_refused_test.cc: every function of os.h does what its comment says where the kernel refuses its call.
#include "base/test_support.h"

#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>

extern "C" {
#include "base/config.h"
#include "os/os.h"
}

namespace {

using test::MIB;

constexpr int ERRNO_KEPT = 4711;
constexpr int REFUSED = ECANCELED; // none of these calls returns it by itself

char *reserved(size_t size_bytes, size_t align_bytes = PAGE_BYTES)
{
    return static_cast<char *>(os_linux_ops.reserve(nullptr, size_bytes, align_bytes));
}

// Made before the call is refused: two pages in use, and two that are only reserved.
struct Ranges {
    char *used = reserved(4 * PAGE_BYTES), *spare = reserved(2 * PAGE_BYTES);
    Ranges()
    {
        EXPECT_EQ(os_linux_ops.release(used + 2 * PAGE_BYTES, 2 * PAGE_BYTES), 0); // room to grow
        EXPECT_EQ(os_linux_ops.commit(used, 2 * PAGE_BYTES), 0);
        used[0] = used[2 * PAGE_BYTES - 1] = 7;
    }
    bool is_unchanged() const { return used[0] == 7 && used[2 * PAGE_BYTES - 1] == 7; }
};

constexpr long NONE = -1; // the function makes no call to the system that can be refused

// Each function of os.h: the call that is refused, and whether the function then does what its comment says. errno is
// kept by all of them. ci/lint/lists compares the names with os.h.
const struct {
    const char *function;
    long call;
    bool (*holds)(const Ranges &);
    int error = REFUSED;
} REFUSALS[] = {
    {"reserve", SYS_mmap,
     [](auto &) { return reserved(PAGE_BYTES) == nullptr && reserved(PAGE_BYTES, MIB) == nullptr; }},
    {"reserve", SYS_mmap,
     [](auto &r) { return os_linux_ops.reserve(r.used + 2 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES) == nullptr; }},
    {"reserve", SYS_munmap, // what lies beside an aligned range stays reserved
     [](auto &) { return test::is_aligned(reserved(PAGE_BYTES, 64 * MIB), 64 * MIB); }},
    {"map", SYS_mmap,
     [](auto &r) {
         return os_linux_ops.map(nullptr, PAGE_BYTES, MIB) == nullptr &&
                os_linux_ops.map(r.used + 2 * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES) == nullptr;
     }},
    {"expose", SYS_mprotect, [](auto &r) { return os_linux_ops.expose(r.spare, PAGE_BYTES) == REFUSED; }},
    {"commit", SYS_mprotect, [](auto &r) { return os_linux_ops.commit(r.spare, PAGE_BYTES) == REFUSED; }},
    {"os_commit_fresh", SYS_mprotect,
     [](auto &r) {
         bool is_fresh = os_commit_fresh(r.spare, PAGE_BYTES) == 0 && r.spare[0] == 0;
         r.spare[PAGE_BYTES - 1] = 1;
         return is_fresh && r.is_unchanged();
     }},
    {"map", SYS_mprotect, // a wide one
     [](auto &) {
         auto *start = static_cast<char *>(os_linux_ops.map(nullptr, PAGE_BYTES, 64 * MIB));
         return test::is_aligned(start, 64 * MIB) && (start[PAGE_BYTES - 1] = 1) == 1;
     }},
    {"purge", SYS_mmap,
     [](auto &r) {
         os_purge_by_advice(false);
         return os_linux_ops.purge(r.used, PAGE_BYTES) == REFUSED && r.is_unchanged();
     }},
    {"purge", SYS_mmap, // no room for a mapping more: madvise needs none
     [](auto &r) {
         os_purge_by_advice(false);
         return os_linux_ops.purge(r.used, PAGE_BYTES) == 0 && r.used[0] == 0 && r.used[2 * PAGE_BYTES - 1] == 7;
     },
     ENOMEM},
    {"purge", SYS_mprotect, // no part of memory that is in use is closed
     [](auto &r) {
         const rlimit less = {PAGE_BYTES, PAGE_BYTES}; // the kernel refuses the mapping, with ENOMEM
         os_purge_by_advice(false);
         return setrlimit(RLIMIT_DATA, &less) == 0 && os_linux_ops.purge(r.used, PAGE_BYTES) == 0 && r.used[0] == 0 &&
                r.used[2 * PAGE_BYTES - 1] == 7;
     },
     EPERM},
    {"os_purge_by_advice", SYS_madvise,
     [](auto &r) {
         os_purge_by_advice(true);
         return os_linux_ops.purge(r.used, PAGE_BYTES) == REFUSED && r.is_unchanged();
     }},
    {"purge", SYS_madvise, // it does not ask for it
     [](auto &r) {
         os_purge_by_advice(false);
         return os_linux_ops.purge(r.used, PAGE_BYTES) == 0 && r.used[0] == 0 && r.used[2 * PAGE_BYTES - 1] == 7;
     }},
    {"seal", SYS_mprotect,
     [](auto &r) { return os_linux_ops.seal(r.used, PAGE_BYTES) == REFUSED && r.is_unchanged(); }},
    {"seal", SYS_madvise, // as purge
     [](auto &r) {
         os_purge_by_advice(true);
         return os_linux_ops.seal(r.used, PAGE_BYTES) == 0 && os_linux_ops.commit(r.used, PAGE_BYTES) == 0 &&
                r.is_unchanged();
     }},
    {"seal", SYS_madvise, // it does not ask for it
     [](auto &r) {
         os_purge_by_advice(false);
         return os_linux_ops.seal(r.used, PAGE_BYTES) == 0 && os_linux_ops.commit(r.used, PAGE_BYTES) == 0 &&
                r.used[0] == 0 && r.used[2 * PAGE_BYTES - 1] == 7;
     }},
    {"release", SYS_munmap,
     [](auto &r) { return os_linux_ops.release(r.used, PAGE_BYTES) == REFUSED && r.is_unchanged(); }},
    {"grow", SYS_mremap,
     [](auto &r) { return os_linux_ops.grow(r.used, 2 * PAGE_BYTES, 3 * PAGE_BYTES) == REFUSED && r.is_unchanged(); }},
    {"move", SYS_mremap,
     [](auto &r) {
         return os_linux_ops.move(r.used, 2 * PAGE_BYTES, r.spare, 2 * PAGE_BYTES) == REFUSED && r.is_unchanged();
     }},
    {"page_bytes", NONE, [](auto &) { return os_linux_ops.page_bytes() == (size_t)getpagesize(); }},
    {"os_page_bytes", NONE, [](auto &) { return os_page_bytes() == os->page_bytes(); }},
    {"os_now_ms", NONE, [](auto &) { return os_now_ms() > 0; }},
    {"os_address_space_limit_bytes", SYS_prlimit64,
     [](auto &) { return os_address_space_limit_bytes() == UINT64_MAX; }},
    {"os_note_purged", NONE,
     [](auto &) {
         os_note_purged();
         return os_has_purged();
     }},
    {"os_has_purged", SYS_mprotect, // a refused call counts as well
     [](auto &r) { return os_linux_ops.seal(r.used, PAGE_BYTES) == REFUSED && os_has_purged() == VALIDATE; }},
    {"os_has_space", SYS_mmap, [](auto &) { return !os_has_space(PAGE_BYTES); }},
    {"os_has_space", SYS_munmap, // it maps no more, since each would stay: it even says yes to more than there is
     [](auto &) { return os_has_space(MIB) && os_has_space(size_t{1} << 60); }},
    {"os_told", NONE, [](auto &) { return os_told(AT_PAGESZ) == os_page_bytes() && os_told(~0ul) == 0; }},
    {"os_program_address", NONE, [](auto &) { return os_program_address() != 0; }},
    {"os_stack_address", NONE, [](auto &r) { return os_stack_address() > (uintptr_t)&r; }},
    {"os_is_privileged", NONE, [](auto &) { return !os_is_privileged(); }},
    {"os_wait", SYS_futex,
     [](auto &) {
         uint32_t word = 1;
         os_wait(&word, 1); // would sleep for good
         return word == 1;
     }},
    {"os_wait_ms", SYS_futex,
     [](auto &) {
         uint32_t word = 1;
         uint64_t before = os_now_ms();
         os_wait_ms(&word, 1, 60000);
         return os_now_ms() - before < 30000;
     }},
    {"os_wake_one", SYS_futex,
     [](auto &) {
         uint32_t word = 1;
         os_wake_one(&word);
         return word == 1;
     }},
    {"os_advise_huge", SYS_madvise,
     [](auto &r) {
         os_advise_huge(r.used, PAGE_BYTES);
         return r.is_unchanged();
     }},
    {"os_collapse", SYS_madvise,
     [](auto &r) { return os_collapse(r.used, 2 * PAGE_BYTES) == REFUSED && r.is_unchanged(); }},
    {"os_populate", SYS_madvise,
     [](auto &r) { return os_populate(r.used, 2 * PAGE_BYTES) == REFUSED && r.is_unchanged(); }},
    {"os_populate", SYS_madvise, // before Linux 5.14
     [](auto &r) {
         return os_populate(r.used, 2 * PAGE_BYTES) == 0 &&
                os_resident_bytes(r.used, 2 * PAGE_BYTES) == 2 * PAGE_BYTES && r.is_unchanged();
     },
     EINVAL},
    {"os_resident_bytes", SYS_mincore, [](auto &r) { return os_resident_bytes(r.used, 2 * PAGE_BYTES) == 0; }},
    {"os_write_signals_hold", SYS_rt_sigprocmask, [](auto &) { return !os_write_signals_hold().is_held; }},
    {"os_write_signals_release", SYS_rt_sigtimedwait,
     [](auto &) {
         sigset_t mask;
         const os_write_signals held = os_write_signals_hold();
         os_write_signals_release(&held);
         return held.is_held && pthread_sigmask(SIG_SETMASK, nullptr, &mask) == 0 && sigismember(&mask, SIGXFSZ) == 0;
     }},
    {"os_write_all", SYS_write, [](auto &) { return os_write_all(STDERR_FILENO, "lost", 4) == REFUSED; }},
    {"os_write_error", SYS_write,
     [](auto &) {
         os_write_error("lost", 4);
         return true;
     }},
};

} // namespace

TEST(OsRefused, EachFunctionKeepsItsContract)
{
    SKIP_UNDER_SANITIZER("its runtime needs the calls that are refused");
    int without_filter = 0;
    for (const auto &each : REFUSALS) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            Ranges ranges;
            bool can = each.call == NONE || test::refuse_call(each.call, each.error);
            errno = ERRNO_KEPT;
            bool holds = can && each.holds(ranges);
            _exit(!can ? 77 : !holds ? 1 : errno != ERRNO_KEPT ? 2 : 0);
        }
        ASSERT_GT(child, 0);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            without_filter++;
            continue;
        }
        EXPECT_FALSE(WIFSIGNALED(status)) << each.function << ": signal " << WTERMSIG(status);
        EXPECT_EQ(WEXITSTATUS(status), 0)
            << each.function << (WEXITSTATUS(status) == 2 ? ": changed errno" : ": does not do what os.h says")
            << " when call " << each.call << " is refused";
    }
    if (without_filter > 0) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
}

// Kernels unmap the target of a move before they ask whether they have room for what moves.
TEST(OsRefused, ACommitWhoseMoveFailsLeavesNoHole)
{
    if (!OWN_CALLS) GTEST_SKIP() << "nothing is moved";
    static const os_ops *below;
    below = os;
    os_ops ops = *os;
    ops.commit = [](void *, size_t) { return ENOMEM; };
    ops.move = [](void *, size_t, void *target, size_t bytes) {
        EXPECT_EQ(below->release(target, bytes), 0);
        return ENOMEM;
    };
    char *start = reserved(2 * PAGE_BYTES);
    ASSERT_NE(start, nullptr);
    os = &ops;
    EXPECT_EQ(os_commit_fresh(start, 2 * PAGE_BYTES), ENOMEM);
    os = below;
    EXPECT_EQ(os->reserve(start, 2 * PAGE_BYTES, PAGE_BYTES), nullptr) << "others could be mapped there";
    EXPECT_EQ(os_commit_fresh(start, 2 * PAGE_BYTES), 0);
    start[2 * PAGE_BYTES - 1] = 1;
    EXPECT_EQ(os_linux_ops.release(start, 2 * PAGE_BYTES), 0);
}
