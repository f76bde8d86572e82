// writer_test.cc: jobs, one at a time and out of the program's reach, and what is due, of which nothing is lost.
#include "base/test_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern "C" {
#include "base/policy.h"
#include "os/own_stack.h"
#include "os/own_thread.h"
#include "report/writer.h"
}

namespace {

bool is_blocked(int signal)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, signal) == 1;
}

struct Seen {
    bool on_own_stack = false, user_blocked = false, fault_blocked = false, another = true;
};

void look(void *context)
{
    auto *seen = static_cast<Seen *>(context);
    const char here = 0;
    seen->on_own_stack = (uintptr_t)&here - (uintptr_t)own_stack < OWN_STACK_BYTES;
    seen->user_blocked = is_blocked(SIGUSR1);
    seen->fault_blocked = is_blocked(SIGSEGV);
    seen->another = writer_try([](void *) {}, nullptr);
    errno = EIO;
}

} // namespace

TEST(Writer, AJobIsOutOfTheProgramsReach)
{
    for (bool tries : {false, true}) {
        Seen seen;
        errno = 7;
        if (tries) EXPECT_TRUE(writer_try(look, &seen));
        else writer_run(look, &seen);
        EXPECT_EQ(errno, 7);
        EXPECT_EQ(seen.on_own_stack, !HAKMEM_FIBERS && !SANITIZED);
        EXPECT_TRUE(seen.user_blocked) << "a handler could leave the job by a jump";
        EXPECT_FALSE(seen.fault_blocked) << "a crash record could not be written";
        EXPECT_FALSE(seen.another) << "a job in a job";
        EXPECT_FALSE(is_blocked(SIGUSR1));
    }
}

// Each of them with each action. A job that waits without end ends with the program; a handler has to wait.
TEST(Writer, ASignalThatEndsTheProgramEndsAJob)
{
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        for (const bool tries : {false, true})
            for (const bool has_handler : {false, true}) {
                const pid_t child = fork();
                if (child == 0) {
                    const rlimit no_core = {0, 0};
                    setrlimit(RLIMIT_CORE, &no_core);
                    struct sigaction action = {};
                    if (has_handler) action.sa_handler = [](int) { _exit(1); };
                    sigaction(signal, &action, nullptr);
                    auto job = [](void *sent) {
                        raise(*static_cast<int *>(sent));
                        if (is_blocked(*static_cast<int *>(sent))) _exit(2);
                    };
                    if (tries) writer_try(job, &signal);
                    else writer_run(job, &signal);
                    _exit(3);
                }
                int status = 0;
                ASSERT_EQ(waitpid(child, &status, 0), child);
                if (has_handler) EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << signal << " " << status;
                else EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal << " " << status;
            }
}

// Registers that a function must preserve, in integers and in floating point, survive the change of stacks.
TEST(Writer, TheCallerKeepsItsRegisters)
{
    uint64_t sum = 0, expected = 0;
    double fraction = 0, expected_fraction = 0;
    for (int i = 0; i < 100; i++) {
        static uint64_t counted;
        counted = 0;
        writer_run(
            [](void *context) {
                volatile double smash[32];
                for (int j = 0; j < 32; j++) smash[j] = *static_cast<int *>(context) / 3.0 + j;
                for (int j = 0; j < 32; j++) counted += (uint64_t)smash[j];
            },
            &i);
        sum += counted * 31 + (uint64_t)i;
        fraction += i / 7.0;
    }
    for (int i = 0; i < 100; i++) {
        uint64_t counted = 0;
        for (int j = 0; j < 32; j++) counted += (uint64_t)(i / 3.0 + j);
        expected += counted * 31 + (uint64_t)i;
        expected_fraction += i / 7.0;
    }
    EXPECT_EQ(sum, expected);
    EXPECT_EQ(fraction, expected_fraction);
}

// Threads whose stacks are the smallest that libc gives run jobs that need more than that, one at a time.
TEST(Writer, JobsOfManyThreadsExcludeEachOther)
{
    SKIP_UNDER_SANITIZER("a job is on the caller's stack");
    static uint64_t plain, tried;
    static const int turns = 2000;
    plain = tried = 0;
    auto run = [](void *) -> void * {
        for (int i = 0; i < turns; i++) {
            auto job = [](void *) {
                volatile char large[OWN_STACK_BYTES / 2];
                for (size_t at = 0; at < sizeof large; at += 512) large[at] = (char)at;
                plain = plain + 1;
            };
            if (i % 2 == 0) writer_run(job, nullptr);
            else if (writer_try(job, nullptr)) __atomic_fetch_add(&tried, 1, __ATOMIC_RELAXED);
        }
        return nullptr;
    };
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_t threads[4];
    // The thread-local data of this program takes a part of it.
    for (pthread_t &thread : threads)
        for (size_t bytes = (size_t)PTHREAD_STACK_MIN;; bytes *= 2) {
            pthread_attr_setstacksize(&small, bytes);
            if (pthread_create(&thread, &small, run, nullptr) == 0) break;
            ASSERT_LT(bytes, sizeof(char[OWN_STACK_BYTES])) << "the job would fit on it";
        }
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    pthread_attr_destroy(&small);
    EXPECT_EQ(plain, 4u * turns / 2 + tried);
}

// Each of three threads notes one kind again as soon as it was taken, and a fourth takes: no note is lost, none counts twice.
TEST(Writer, NothingDueIsLost)
{
    const uint32_t kinds[] = {STATS_DUE, PROFILE_DUE, STEP_DUE};
    const int turns = test::rounds(3000);
    std::atomic<uint64_t> taken[3] = {};
    std::atomic<int> left{3};
    test::in_threads(4, [&](int thread) {
        if (thread < 3) {
            for (int i = 0; i < turns; i++) {
                writer_want(kinds[thread]);
                for (int spins = 0; taken[thread] == (uint64_t)i && spins < 2000000; spins++)
                    if (spins % 100 == 99) std::this_thread::yield();
            }
            left--;
        } else {
            while (left > 0) {
                const uint32_t due = writer_take(STATS_DUE | PROFILE_DUE | STEP_DUE);
                for (int kind = 0; kind < 3; kind++) taken[kind] += (due & kinds[kind]) != 0;
                if (due == 0) std::this_thread::yield();
            }
        }
    });
    for (int kind = 0; kind < 3; kind++) EXPECT_EQ(taken[kind], (uint64_t)turns) << kind;
    EXPECT_EQ(writer_take(~0u), 0u);
}

TEST(Writer, TakesOnlyWhatIsAskedFor)
{
    writer_want(STATS_DUE | STEP_DUE);
    EXPECT_TRUE(writer_is_due_here());
    EXPECT_EQ(writer_take(PROFILE_DUE), 0u);
    EXPECT_EQ(writer_take(STATS_DUE | PROFILE_DUE), (uint32_t)STATS_DUE);
    EXPECT_EQ(writer_take(~0u), (uint32_t)STEP_DUE);
    EXPECT_FALSE(writer_is_due_here());
}

// Since a signal that came before the fork is the parent's.
TEST(Writer, AChildHasNothingDue)
{
    writer_want(STATS_DUE);
    EXPECT_TRUE(test::in_child([] { EXPECT_EQ(writer_take(~0u), 0u); }));
    EXPECT_EQ(writer_take(~0u), (uint32_t)STATS_DUE);
}

// The function of such a thread has the room that was promised, whatever lies above it on the stack.
TEST(Writer, AThreadOfOurOwnHasRoom)
{
    SKIP_UNDER_SANITIZER("its runtime has stacks of its own");
    static size_t room;
    pthread_t thread;
    auto measure = [](void *) -> void * {
        pthread_attr_t attributes;
        void *low = nullptr;
        size_t bytes = 0;
        const char here = 0;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) pthread_attr_getstack(&attributes, &low, &bytes);
        pthread_attr_destroy(&attributes);
        room = (size_t)(&here - static_cast<char *>(low));
        return nullptr;
    };
    ASSERT_EQ(own_thread_start(&thread, measure, nullptr), 0);
    own_thread_join(thread);
    EXPECT_GE(room, (size_t)OWN_THREAD_STACK_BYTES);
    EXPECT_LT(room, own_thread_stack_bytes());
}

// A thread that is to be cancelled waits for the end of one of ours all the same.
TEST(Writer, AJoinIsNoCancellationPoint)
{
    static std::atomic<bool> ended, joined;
    ended = joined = false;
    pthread_t joining;
    auto join = [](void *) -> void * {
        pthread_t thread;
        auto slow = [](void *) -> void * {
            usleep(50000);
            ended = true;
            return nullptr;
        };
        pthread_cancel(pthread_self());
        if (own_thread_start(&thread, slow, nullptr) != 0) return nullptr;
        own_thread_join(thread);
        joined = true;
        pthread_testcancel();
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&joining, nullptr, join, nullptr), 0);
    void *result = nullptr;
    pthread_join(joining, &result);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    EXPECT_TRUE(joined && ended);
}
