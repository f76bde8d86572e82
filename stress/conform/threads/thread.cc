// Threads that end: their heaps, their caches, and calls in their last moments.
//
// More than 400 lines: the checks share the threads that end at a known moment, and the table at the end names all.
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "conform/check.h"
#include "conform/files.h"
#include "conform/support.h"
#include "conform/process.h"

namespace stress::conform {
namespace {

constexpr int kManyBlocks = 400;

std::size_t size_of(int index)
{
    constexpr std::size_t sizes[] = {16, 40, 100, 1000, 5000, 40'000, 300'000, 3 << 20};
    return sizes[index % 50 == 49 ? 7 : index % 10 == 9 ? 4 + index / 10 % 3 : index % 4];
}

// Whether all blocks still hold their content. Frees them.
const char *free_all(const Subject &s, void *const (&blocks)[kManyBlocks])
{
    const char *wrong = nullptr;
    for (int i = 0; i < kManyBlocks; ++i) {
        if (blocks[i] == nullptr) return wrong_text("malloc(%zu) gave NULL in a thread", size_of(i));
        if (!marked(blocks[i], size_of(i), static_cast<unsigned char>(i)))
            wrong = wrong_text("the block %p of %zu bytes changed after its thread had ended", blocks[i], size_of(i));
        s.free(blocks[i]);
    }
    return wrong;
}

void take_all(const Subject &s, void *(&blocks)[kManyBlocks])
{
    for (int i = 0; i < kManyBlocks; ++i) {
        blocks[i] = launder(s.malloc(size_of(i)));
        if (blocks[i] != nullptr) mark(blocks[i], size_of(i), static_cast<unsigned char>(i));
    }
}

Verdict free_after_owner_ended(const Subject &s)
{
    for (int round = 0; round < 20; ++round) {
        static void *blocks[kManyBlocks];
        if (!in_thread([&] { take_all(s, blocks); })) return fail("no thread");
        const char *wrong = nullptr;
        if (round % 2 == 0) wrong = free_all(s, blocks);
        else if (!in_thread([&] { wrong = free_all(s, blocks); })) return fail("no thread");
        if (wrong == nullptr) wrong = exercise(s);
        if (wrong != nullptr) return fail("%s", wrong);
    }
    return pass();
}

Verdict free_while_owner_ends(const Subject &s)
{
    for (int round = 0; round < 100; ++round) {
        static std::atomic<void *> handed[kManyBlocks];
        for (auto &slot : handed) slot = nullptr;
        auto owner = [&] {
            for (auto &slot : handed) slot.store(launder(s.malloc(100)), std::memory_order_release);
        };
        Thread<decltype(owner)> thread(owner);
        if (!thread.started()) return fail("no thread");
        for (auto &slot : handed) {
            void *block;
            for (Pause pause; (block = slot.load(std::memory_order_acquire)) == nullptr;) pause();
            memset(block, round, 100);
            s.free(block);
        }
    }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// --- destructors of thread-specific data -----------------------------------------------------------------

const Subject *at_exit_subject;
pthread_key_t at_exit_key;
std::atomic<int> at_exit_runs;
std::atomic<const char *> at_exit_wrong;

// Shared by the destructors of a thread: the current round, and a block of the thread's own.
struct Farewell {
    int rounds_left;
    bool allocates;
    void *block;
};

// Sets itself again until the last round, when the subject has already torn down its state of the thread.
void on_thread_exit(void *value)
{
    auto *farewell = static_cast<Farewell *>(value);
    const Subject &s = *at_exit_subject;
    ++at_exit_runs;
    if (farewell->allocates) {
        void *blocks[40];
        for (int i = 0; i < 40; ++i) {
            blocks[i] = launder(s.malloc(size_of(i)));
            if (blocks[i] == nullptr)
                at_exit_wrong = wrong_text("malloc(%zu) gave NULL, errno %s, in round %d of the destructors of "
                                           "thread-specific data",
                                           size_of(i), errno_text(errno), at_exit_runs.load());
            else mark(blocks[i], size_of(i), 3);
        }
        for (void *block : blocks) s.free(block);
    }
    if (--farewell->rounds_left > 0) {
        pthread_setspecific(at_exit_key, value);
        return;
    }
    s.free(farewell->block);
}

// Runs threads one after another, each with a destructor. `body` runs in the thread, the farewell in its destructor.
template <typename Body> Verdict threads_with_farewell(const Subject &s, bool allocates, int rounds, Body &&body)
{
    at_exit_subject = &s;
    if (pthread_key_create(&at_exit_key, on_thread_exit) != 0) return fail("no key for thread-specific data");
    constexpr int threads = 100;
    for (int i = 0; i < threads; ++i) {
        static Farewell farewell;
        farewell = {rounds, allocates, launder(s.malloc(size_of(i)))};
        if (farewell.block != nullptr) mark(farewell.block, size_of(i), 1);
        if (!in_thread([&] {
                body();
                pthread_setspecific(at_exit_key, &farewell);
            }))
            return fail("no thread");
    }
    if (at_exit_wrong.load() != nullptr) return fail("%s", at_exit_wrong.load());
    if (at_exit_runs.load() != threads * rounds)
        return fail("the destructors of %d threads ran %d times, not %d", threads, at_exit_runs.load(),
                    threads * rounds);
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

Verdict free_in_key_destructor(const Subject &s)
{
    return threads_with_farewell(s, true, 1, [&] {
        void *block = launder(s.malloc(100));
        mark(block, 100, 1);
        s.free(block);
    });
}

Verdict alloc_in_every_round(const Subject &s)
{
    return threads_with_farewell(s, true, 4, [&] { s.free(launder(s.malloc(100))); });
}

Verdict only_call_is_free(const Subject &s)
{
    return threads_with_farewell(s, false, 4, [] {});
}

// Blocks of this thread, each for the first call of a thread of its own: free, realloc in place, larger, and smaller.
Verdict first_call(const Subject &s)
{
    constexpr std::size_t sizes[] = {16, 1000, 40'000, 300'000, 3 << 20, 40 << 20};
    for (std::size_t size : sizes)
        for (int kind = 0; kind < 5; ++kind) {
            const std::size_t asked = kind == 2 ? size : kind == 3 ? size + size / 2 : size - size / 4;
            void *block = launder(s.malloc(size)), *moved = nullptr;
            if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
            mark(block, size, 5);
            if (!in_thread([&] {
                    if (kind == 0) s.free(block);
                    else if (kind == 1) moved = launder(s.calloc(1, size));
                    else moved = launder(s.realloc(block, asked));
                }))
                return fail("no thread");
            if (kind == 1) s.free(block);
            if (kind > 0 && moved == nullptr)
                return fail("%s of a block of %zu bytes as the first call of a thread gave NULL",
                            kind == 1 ? "calloc" : "realloc", size);
            if (kind > 1 && bytes_of(moved)[0] != 5)
                return fail("realloc of a block of %zu bytes lost its content", size);
            s.free(moved);
        }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// A thread that frees in its destructors, and did nothing else or has given its state up already, must not become the owner
// of what it frees: nobody would take that over again.
void *late_blocks[4];
const Subject *late_subject;
pthread_key_t late_key;

void free_late(void *)
{
    int left = 0;
    while (left < 4 && late_blocks[left] == nullptr) ++left;
    if (left == 4) return;
    late_subject->free(late_blocks[left]);
    late_blocks[left] = nullptr;
    if (left < 3) pthread_setspecific(late_key, late_blocks);
}

Verdict free_in_last_rounds(const Subject &s)
{
    late_subject = &s;
    if (pthread_key_create(&late_key, free_late) != 0) return fail("no key for thread-specific data");
    std::size_t before = 0;
    constexpr std::size_t size = 100'000;
    for (int i = 0; i < 500; ++i) {
        if (i == 100) before = resident_bytes();
        auto takes = [&] {
            for (void *&block : late_blocks)
                if ((block = launder(s.malloc(size))) != nullptr) memset(block, 1, size);
        };
        auto leaves = [] { pthread_setspecific(late_key, late_blocks); };
        if (!in_thread(takes) || !in_thread(leaves)) return fail("no thread");
    }
    const std::size_t after = resident_bytes();
    return after < before + 64 * kMib
               ? pass()
               : fail("400 threads that freed 400 KB each in their destructors left %zu MiB resident",
                      (after - before) / kMib);
}

struct FreesAtEnd {
    const Subject *subject = nullptr;
    void *block = nullptr;
    ~FreesAtEnd()
    {
        if (subject == nullptr) return;
        subject->free(block);
        void *another = launder(subject->malloc(5000));
        mark(another, 5000, 2);
        subject->free(another);
    }
};

Verdict free_in_thread_local(const Subject &s)
{
    for (int i = 0; i < 200; ++i)
        if (!in_thread([&] {
                thread_local FreesAtEnd object;
                object.subject = &s;
                object.block = launder(s.malloc(size_of(i)));
            }))
            return fail("no thread");
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// --- memory of threads that have ended ----------------------------------------------------------------------

Verdict caches_of_ended_threads(const Subject &s)
{
    const std::size_t before = resident_bytes();
    for (int i = 0; i < 2000; ++i)
        if (!in_thread([&] {
                void *blocks[64][7];
                for (std::size_t c = 0; c < 64; ++c)
                    for (void *&block : blocks[c])
                        if ((block = launder(s.malloc(16 * c + 16))) != nullptr) memset(block, 1, 16 * c + 16);
                for (auto &row : blocks)
                    for (void *block : row) s.free(block);
            }))
            return fail("no thread");
    const std::size_t after = resident_bytes();
    return after < before + 96 * kMib
               ? pass()
               : fail("2000 threads, one after the other, left %zu MiB resident, above 96", (after - before) / kMib);
}

Verdict late_free_of_large(const Subject &s)
{
    const std::size_t before = resident_bytes();
    for (int round = 0; round < 60; ++round) {
        constexpr std::size_t sizes[] = {40'000, 300'000, 1 << 20, 3 << 20, 9 << 20};
        void *blocks[5];
        if (!in_thread([&] {
                for (int i = 0; i < 5; ++i)
                    if ((blocks[i] = launder(s.malloc(sizes[i]))) != nullptr) fill(blocks[i], sizes[i], 4);
            }))
            return fail("no thread");
        for (int i = 0; i < 5; ++i) {
            if (blocks[i] == nullptr) return fail("malloc(%zu) gave NULL in a thread", sizes[i]);
            if (const std::size_t at = filled_until(blocks[i], sizes[i], 4); at != SIZE_MAX)
                return fail("byte %zu of the block %p of %zu bytes changed after its thread had ended", at, blocks[i],
                            sizes[i]);
            s.free(blocks[i]);
        }
    }
    const std::size_t after = resident_bytes();
    return after < before + 160 * kMib ? pass()
                                       : fail("large blocks freed after their threads left %zu MiB resident, above 160",
                                              (after - before) / kMib);
}

Verdict never_allocated(const Subject &s)
{
    for (int i = 0; i < 50; ++i) {
        auto idle = [] {};
        auto asks = [&] {
            if (s.trim != nullptr) s.trim(0);
            if (s.stats != nullptr) s.stats();
            s.free(nullptr);
        };
        if (!in_thread(idle) || !in_thread(asks)) return fail("no thread");
    }
    const char *wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

Verdict key_above_32(const Subject &s)
{
    static pthread_key_t keys[60];
    for (pthread_key_t &key : keys)
        if (pthread_key_create(&key, nullptr) != 0) return fail("no key for thread-specific data");
    for (int i = 0; i < 50; ++i) {
        const char *wrong = nullptr;
        if (!in_thread([&] {
                // For keys above 32, libc allocates with calloc.
                for (pthread_key_t key : keys) pthread_setspecific(key, &keys);
                wrong = exercise(s);
            }))
            return fail("no thread");
        if (wrong != nullptr) return fail("%s", wrong);
    }
    return pass();
}

Verdict small_stack(const Subject &s)
{
    const char *first = exercise(s); // makes the loader bind the functions that the library calls
    if (first != nullptr) return fail("%s", first);
    constexpr std::size_t stack_bytes = 20 << 10;
    for (int i = 0; i < 10; ++i) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (pthread_attr_setstacksize(&attributes, stack_bytes) != 0) return skip("no stack of 20 KiB here");
        const char *wrong = nullptr;
        auto body = [&] { wrong = exercise(s); };
        Thread<decltype(body)> thread(body, &attributes);
        if (!thread.started()) return skip("the thread-local data of the process leaves nothing of a 20 KiB stack");
        thread.join();
        pthread_attr_destroy(&attributes);
        if (wrong != nullptr) return fail("%s", wrong);
    }
    return pass();
}

Verdict first_calls_together(const Subject &s)
{
    for (int round = 0; round < 30; ++round) {
        constexpr int threads = 8;
        std::atomic<int> arrived{0}, wrong{0};
        auto body = [&] {
            const int mine = arrived.fetch_add(1);
            wait_until(arrived, threads);
            const std::size_t size = size_of(mine * 7);
            void *block = launder(s.malloc(size));
            if (block == nullptr) ++wrong;
            else mark(block, size, static_cast<unsigned char>(mine));
            sleep_ms(1);
            if (block != nullptr && !marked(block, size, static_cast<unsigned char>(mine))) ++wrong;
            s.free(block);
        };
        Thread<decltype(body)> all[threads] = {Thread(body), Thread(body), Thread(body), Thread(body),
                                               Thread(body), Thread(body), Thread(body), Thread(body)};
        for (auto &thread : all) thread.join();
        if (wrong.load() != 0)
            return fail("%d of %d threads got no block of their own at their first call", wrong.load(), threads);
    }
    return pass();
}

// --- in a program of its own --------------------------------------------------------------------------------------

Verdict static_destructors(const Subject &s)
{
    return in_fresh_program("static-destructors", s);
}
// Loads plugin/late.c, which prints the last line, so that its destructor runs after the library's.
Verdict destructors_after_the_library(const Subject &s)
{
    preload_after("libconform-late.so");
    return in_fresh_program("destructors-after-the-library", s);
}
Verdict exit_with_workers(const Subject &s)
{
    return in_fresh_program("exit-with-workers", s);
}
Verdict atexit_first(const Subject &s)
{
    return in_fresh_program("atexit-first", s);
}
Verdict keys_first(const Subject &s)
{
    return in_fresh_program("keys-first", s);
}
Verdict huge_first(const Subject &s)
{
    return in_fresh_program("huge-first", s);
}

Verdict unload(const Subject &s)
{
    if (s.is_libc) return skip("libc is never unloaded");
    return in_fresh_program("unload", s);
}

constexpr Check kThreadChecks[] = {
    {"free-after-owner-ended",
     "blocks outlive the thread that allocated them, and can be freed",
     "C23 7.24.3: the lifetime of a block ends when it is freed, not with a thread",
     "mimalloc#944, mimalloc#202, mimalloc#204",
     {18, 19},
     free_after_owner_ended},
    {"free-while-owner-ends",
     "blocks can be freed while the thread that allocated them ends",
     "C23 7.24.3: the lifetime of a block ends when it is freed, not with a thread",
     "mimalloc#944",
     {18},
     free_while_owner_ends},
    {"free-in-key-destructor",
     "destructors of thread-specific data may malloc and free",
     "POSIX.1-2024 pthread_key_create: destructors are functions of the program; nothing forbids malloc and free in them",
     "mimalloc#1177, mimalloc#1288, mimalloc#699",
     {18},
     free_in_key_destructor},
    {"free-in-thread-local",
     "destructors of thread_local objects may malloc and free",
     "C++20 [basic.start.term]: destructors of thread_local objects may allocate and free",
     "mimalloc#1289, mimalloc#1177",
     {18},
     free_in_thread_local},
    {"alloc-in-every-round",
     "malloc works in each round of the destructors of thread-specific data",
     "POSIX.1-2024 pthread_key_create: destructors run in up to PTHREAD_DESTRUCTOR_ITERATIONS rounds, and may call malloc",
     "jemalloc 4.0.1, jemalloc#2804",
     {20},
     alloc_in_every_round},
    {"only-call-is-free",
     "a thread may free in the last round of its destructors and do nothing else",
     "C23 7.24.3: any thread may free any block",
     "jemalloc 5.0.1, mimalloc#699",
     {18, 20},
     only_call_is_free},
    {"first-call-of-a-thread",
     "the first call of a thread may be free or realloc of another's block, small or huge",
     "C23 7.24.3: any thread may free or realloc any block",
     "mimalloc#221, mimalloc#1304",
     {18, 19},
     first_call},
    {"free-in-last-rounds",
     "threads that free in each round of their destructors leave nothing behind",
     "quality: memory stays in proportion to what is live",
     "mimalloc#944, mimalloc#1177",
     {18},
     free_in_last_rounds},
    {"caches-of-ended-threads",
     "memory that threads had cached is reused after they end",
     "quality: memory stays in proportion to what is live",
     "BZ#22111, mimalloc#221",
     {19, 22},
     caches_of_ended_threads},
    {"late-free-of-large",
     "large blocks freed after the end of their threads are used again",
     "quality: memory stays in proportion to what is live",
     "mimalloc#202, mimalloc#204",
     {19},
     late_free_of_large},
    {"never-allocated",
     "a thread that never allocated may end, trim and ask for figures",
     "POSIX.1-2024 pthread_exit, malloc_trim(3), mallinfo(3): any thread may call them",
     "BZ#28028",
     {22},
     never_allocated},
    {"key-above-32",
     "pthread_setspecific may be the first to allocate in a thread",
     "POSIX.1-2024 pthread_setspecific: works for every key; libc allocates its tables by malloc",
     "jemalloc#2804, glibc nptl",
     {22},
     key_above_32},
    {"keys-first",
     "malloc works if all small keys were taken before it",
     "POSIX.1-2024 pthread_setspecific: works for every key; libc allocates its tables by malloc",
     "snmalloc#762, glibc nptl",
     {22},
     keys_first},
    {"atexit-first",
     "atexit may be the first to allocate",
     "C23 7.24.4.2: atexit works before the first malloc; libc allocates its tables by calloc",
     "snmalloc#762",
     {22},
     atexit_first},
    {"static-destructors",
     "static destructors and atexit handlers may free and malloc",
     "C23 7.24.4.4: at exit, functions of atexit run before the program ends, and may allocate and free",
     "rpmalloc#20, rpmalloc#98",
     {21},
     static_destructors},
    {"destructors-after-the-library",
     "destructors of libraries that end after the malloc may free and malloc",
     "C23 7.24.3: any block may be freed while the program runs; dlopen(3): destructors run at its end, in an order that the loader chooses",
     "rpmalloc#20, rpmalloc#98",
     {21},
     destructors_after_the_library},
    {"exit-with-workers",
     "exit and _exit end while threads allocate and end",
     "C23 7.24.4.4, 7.24.4.5: exit and _Exit end the program, whatever other threads do",
     "rpmalloc 1.4.2",
     {21},
     exit_with_workers},
    {"unload",
     "dlclose of the library leaves nothing that runs at the end of a thread",
     "quality: dlclose(3) may unload the library; destructors of its keys must not stay behind",
     "mimalloc#809",
     {23},
     unload},
    {"small-stack",
     "a stack of 20 KiB is enough",
     "POSIX.1-2024 pthread_attr_setstacksize: PTHREAD_STACK_MIN is enough for a thread; malloc takes no more than a call may",
     "jemalloc#2179",
     {23},
     small_stack},
    {"huge-first",
     "the first call of a process may ask for a huge block",
     "C23 7.24.3: any size may be the first",
     "rpmalloc 6b34d95",
     {23},
     huge_first},
    {"first-calls-together",
     "the first calls of threads may come at the same time",
     "C23 7.24.3: calls of several threads do not race",
     "rpmalloc#396",
     {23},
     first_calls_together},
};

} // namespace

std::span<const Check> thread_checks()
{
    return kThreadChecks;
}

} // namespace stress::conform
