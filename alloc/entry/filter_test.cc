// filter_test.cc: what the heap asks of the system after start (docs/internals.md), in a process that installs a filter of
// system calls as sandboxes do: another call ends the process. A call of the list that is refused costs no block.
#include "base/test_support.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hakmem/hakmem.h"

extern "C" {
#include "base/config.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

constexpr long SLOW_PATH[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap};
constexpr long OF_CHECKS[] = {SYS_getpid, SYS_gettid, SYS_tgkill}; // the debug-validation build's
constexpr long OF_THE_TEST[] = {SYS_exit_group, SYS_write}; // to end, and to say what failed
// The heap's, and what libc asks for when a thread begins and ends.
constexpr long OF_THREADS[] = {SYS_madvise,        SYS_futex,          SYS_brk,          SYS_clone,
                               SYS_clone3,         SYS_exit,           SYS_gettid,       SYS_rseq,
                               SYS_rt_sigaction,   SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity,
                               SYS_set_robust_list};

sock_filter result(uint32_t what)
{
    return {BPF_RET | BPF_K, 0, 0, what};
}

// From here on a call that is not listed ends the process. So does mmap with MAP_NORESERVE, where no thread of the test makes
// libc's own malloc map an arena so.
bool filter(bool has_threads)
{
    std::vector<long> allowed(std::begin(SLOW_PATH), std::end(SLOW_PATH));
    allowed.insert(allowed.end(), std::begin(OF_THE_TEST), std::end(OF_THE_TEST));
    if (VALIDATE) allowed.insert(allowed.end(), std::begin(OF_CHECKS), std::end(OF_CHECKS));
    if (has_threads) allowed.insert(allowed.end(), std::begin(OF_THREADS), std::end(OF_THREADS));
    std::vector<sock_filter> code = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_mmap},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args[3])},
        {BPF_JMP | BPF_JSET | BPF_K, 0, 1, has_threads ? 0u : MAP_NORESERVE},
        result(SECCOMP_RET_KILL_PROCESS),
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
    };
    for (long call : allowed) {
        code.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<uint32_t>(call)});
        code.push_back(result(SECCOMP_RET_ALLOW));
    }
    code.push_back(result(SECCOMP_RET_KILL_PROCESS));
    sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

bool can_filter()
{
    return test::in_child([] { EXPECT_TRUE(test::refuse_call(SYS_mincore, EPERM)); });
}

constexpr size_t SLOTS = 2000;
struct Counts {
    size_t calls, nulls;
};

// Blocks of every kind come, change and go; then everything goes back, and comes again. Uses no memory of libc's.
Counts use_everything(uint32_t random, size_t rounds)
{
    static thread_local char *blocks[SLOTS];
    Counts counts = {};
    hak_heap *own = hak_heap_new();
    for (size_t round = 0; round < rounds; round++) {
        random = random * 1103515245 + 12345;
        char *&block = blocks[random % SLOTS];
        const uint32_t draw = random >> 10;
        const size_t bytes = draw % 500 == 0 ? 3 << 20 : draw % 30 == 0 ? 1 + draw % 400000 : 1 + draw % 3000;
        counts.calls++;
        if (draw % 5 == 0 && block != nullptr) {
            auto *resized = static_cast<char *>(hak_realloc(block, bytes));
            if (resized == nullptr) counts.nulls++;
            else block = resized;
        } else {
            hak_free(block);
            block = static_cast<char *>(draw % 7 == 0    ? hak_calloc(1, bytes)
                                        : draw % 11 == 0 ? hak_aligned_alloc(8192, bytes)
                                        : draw % 13 == 0 ? hak_heap_malloc(own, bytes)
                                                         : hak_malloc(bytes));
            if (block == nullptr) counts.nulls++;
        }
        if (block != nullptr) block[0] = 1;
        if (round % (rounds / 3) == 0) hak_purge_all();
    }
    for (char *&block : blocks) hak_free(std::exchange(block, nullptr));
    hak_heap_destroy(own);
    hak_purge_all();
    return counts;
}

} // namespace

TEST(Filter, SlowPathsAskForWhatIsListedOnly)
{
    SKIP_UNDER_SANITIZER("its runtime makes calls of its own");
    if (!can_filter()) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(1));
        if (!filter(false)) _exit(1);
        const Counts counts = use_everything(1, 60000);
        _exit(counts.nulls == 0 && hak_malloc(size_t{1} << 50) == nullptr ? 0 : 1);
    }));
}

TEST(Filter, ThreadsAskForWhatIsListedOnly)
{
    SKIP_UNDER_SANITIZER("its runtime makes calls of its own");
    if (!can_filter()) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    EXPECT_TRUE(test::in_child([] {
        hak_free(hak_malloc(1));
        static std::atomic<size_t> nulls;
        if (!filter(true)) _exit(1);
        for (int round = 0; round < 3; round++)
            test::in_threads(
                4, [](int thread) { nulls += use_everything(static_cast<uint32_t>(thread) + 1, 20000).nulls; });
        _exit(nulls == 0 ? 0 : 1);
    }));
}

// As a daemon that forks a child, which then forbids itself what libc's malloc never asks for.
TEST(Filter, AChildOfThreadsAsksForNoAdvice)
{
    SKIP_UNDER_SANITIZER("its runtime makes calls of its own");
    if (!can_filter()) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    EXPECT_TRUE(test::in_child([] {
        test::in_threads(2, [](int thread) { use_everything(static_cast<uint32_t>(thread) + 1, 1000); });
        hak_purge_all();
        EXPECT_TRUE(test::in_child([] {
            if (!filter(false)) _exit(1);
            _exit(use_everything(1, 60000).nulls == 0 ? 0 : 1);
        }));
    }));
}

// If a child purged much of its parent's memory by mappings, there could be too many of them.
TEST(Filter, AChildOfAParentWithMuchMemoryAsksForAdvice)
{
    SKIP_UNDER_SANITIZER("its runtime makes calls of its own");
    if (!can_filter()) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    for (size_t count : {1, INHERITED_SUPERSLABS_MAX - 1, INHERITED_SUPERSLABS_MAX + 0, INHERITED_SUPERSLABS_MAX + 1})
        EXPECT_TRUE(test::in_child([count] {
            std::vector<void *> blocks = {hak_malloc(1)};
            while (blocks.size() < 4 || pool_figures().superslab_count < count) {
                blocks.push_back(hak_malloc(test::MIB));
                memset(blocks.back(), 1, test::MIB);
            }
            EXPECT_TRUE(test::in_child([&] {
                ASSERT_TRUE(test::refuse_call(SYS_madvise, EPERM));
                for (void *block : blocks) hak_free(block);
                EXPECT_EQ(hak_purge_all() + hak_purge_all() > test::MIB, count <= INHERITED_SUPERSLABS_MAX);
                // With a second thread it asks.
                test::in_thread([] { EXPECT_EQ(use_everything(1, 3).nulls, 0u); });
                void *block = hak_malloc(test::MIB);
                memset(block, 1, test::MIB);
                hak_free(block);
                EXPECT_LT(hak_purge_all(), test::MIB);
            })) << count
                << " superslabs";
        }));
}

TEST(Filter, ARefusedCallCostsNoBlock)
{
    SKIP_UNDER_SANITIZER("its runtime makes calls of its own");
    if (!can_filter()) GTEST_SKIP() << "the kernel lets no process refuse calls to itself (seccomp)";
    // Not mmap: without it there is no new memory.
    for (long call :
         {SYS_mprotect, SYS_munmap, SYS_mremap, SYS_madvise, SYS_futex, SYS_prlimit64, SYS_brk, SYS_mincore, SYS_prctl})
        for (int error : {EPERM, EINVAL, ENOSYS, ENOMEM})
            EXPECT_TRUE(test::in_child([=] {
                hak_free(hak_malloc(1));
                if (!test::refuse_call(call, error)) _exit(1);
                const Counts counts = use_everything(3, 40000);
                if (counts.nulls > counts.calls / 100) fprintf(stderr, "%zu of %zu NULL\n", counts.nulls, counts.calls);
                _exit(counts.nulls <= counts.calls / 100 ? 0 : 1);
            })) << "call "
                << call << ", error " << error;
}
