// fork while something is held: a stream, or the allocator in the middle of a system call. The child has one thread,
// and finds everything in the state in which the other threads left it. It must be able to allocate.
#include <stdio.h>

#include <cstring>

#include "conform/check.h"
#include "conform/deny.h"
#include "conform/files.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// Uses memory in a child. Null, or what was wrong.
const char *child_exercise(const Subject &s)
{
    if (const char *wrong = exercise(s)) return wrong;
    const char *wrong = nullptr;
    if (!in_thread([&] { wrong = exercise(s); })) return "the child cannot start a thread";
    return wrong;
}

// glibc BZ#19431: one thread holds a stream and needs malloc, one holds the list of streams and waits for the stream,
// and fork waits for the list. A malloc whose atfork handler has taken the heap's locks by then closes the circle.
Verdict while_a_stream_is_held(const Subject &s)
{
    FILE *const file = tmpfile();
    if (file == nullptr) return skip("no temporary file");
    std::atomic<int> held{0}, flushing{0}, forking{0};
    auto holder = [&] {
        flockfile(file);
        held = 1;
        wait_until(forking, 1);
        sleep_ms(200);  // time for fork to pass the handlers and wait for the list
        const char *wrong = exercise(s);
        if (wrong != nullptr) fputs(wrong, stderr);
        funlockfile(file);
    };
    auto flusher = [&] {
        flushing = 1;
        fflush(nullptr);  // takes the list, then waits for the stream
    };
    Thread<decltype(holder)> holding(holder);
    if (!holding.started()) return fail("no thread");
    wait_until(held, 1);
    Thread<decltype(flusher)> waiting(flusher);
    if (waiting.started()) wait_until(flushing, 1);
    sleep_ms(100);
    forking = 1;
    if (!waiting.started()) return fail("no thread");
    now_doing("fork while a thread holds a stream and another waits for it in fflush(NULL)");
    const char *wrong = in_fork([&] { return child_exercise(s); });
    holding.join();
    waiting.join();
    return wrong == nullptr ? pass() : fail("the child %s", wrong);
}

const Subject *handler_subject;
std::atomic<int> handler_runs;
std::atomic<const char *> handler_wrong;

void handler()
{
    ++handler_runs;
    if (const char *wrong = exercise(*handler_subject)) handler_wrong = wrong;
}

Verdict malloc_in_handlers(const Subject &s)
{
    handler_subject = &s;
    if (pthread_atfork(handler, handler, handler) != 0) return skip("pthread_atfork is refused");
    for (int i = 0; i < 3; ++i) {
        const char *wrong =
            in_fork([&] { return handler_wrong.load() != nullptr ? handler_wrong.load() : child_exercise(s); });
        if (wrong == nullptr) wrong = handler_wrong.load();
        if (wrong != nullptr) return fail("%s", wrong);
    }
    return handler_runs.load() == 6 ? pass()
                                    : fail("the handlers ran %d times in the parent, not 6", handler_runs.load());
}

Verdict atfork_first(const Subject &s)
{
    return in_fresh_program("atfork-first", s);
}

// --- a thread inside the allocator -------------------------------------------------------------------------------

constexpr int kForksOfAPhase = 2;

// How the gate's keeper and the forking thread take turns.
struct Turns {
    std::atomic<int> descriptor{0};  // the gate's descriptor; -1: the kernel refuses it
    // Number of forks by the end of the worker's phase, so that each phase gets its own.
    std::atomic<int> allowed{0};
    std::atomic<int> standing{0};    // calls that were stopped for a fork
    std::atomic<int> forking{0};     // forks that have begun
    std::atomic<int> returned{0};    // forks that have returned in the parent
    std::atomic<int> judged{0};      // forks whose child has ended
    std::atomic<int> done{0};        // the worker will make no more calls
};

// Holds a call until the fork has happened. A heap that takes its locks for a fork cannot fork before this call has
// returned, nor before later calls that the worker makes under the same lock. So the call may pass after 300 ms, and
// the later ones at once.
[[noreturn]] void keep_gate(Turns &turns)
{
    while (turns.descriptor.load() <= 0) sleep_ms(1);
    Gate gate(turns.descriptor.load());
    for (;;) {
        if (!gate.arrived(1000)) continue;
        if (turns.returned.load() == turns.standing.load()) {
            wait_until(turns.judged, turns.standing.load());
            if (turns.standing.load() < turns.allowed.load()) {
                const int turn = ++turns.standing;
                wait_until(turns.forking, turn);
                wait_at_most(turns.returned, turn, 0.3);
            }
        }
        gate.pass();
    }
}

// Starts a thread that lives until the process ends: behind a gate, even the thread's end would make calls that the
// gate stops.
template <typename Body> bool start_for_ever(Body &body)
{
    static Body *entered;
    entered = &body;
    pthread_t thread;
    const auto enter = [](void *) -> void * {
        (*entered)();
        for (;;) sleep_ms(1000);
    };
    return pthread_create(&thread, nullptr, enter, nullptr) == 0;
}

// Forks while the worker is inside a system call for memory, a few times in each of its phases. The worker sets the
// gate itself; nothing stops what it does before.
template <typename Worker> Verdict fork_at_each_call(const Subject &s, Worker &&worker)
{
    static Turns turns;
    auto body = [&] {
        worker([] { return (turns.descriptor = gate_memory_calls()) > 0; },
               [] {
                   wait_until(turns.judged, turns.standing.load());
                   turns.allowed = turns.standing.load() + kForksOfAPhase;
               });
        turns.done = 1;
    };
    auto keeper = [] { keep_gate(turns); };
    // From here on this thread allocates only in its children, because the worker may be stopped with a lock held.
    void *ours = launder(s.malloc(5000));
    fill(ours, 5000, 1);
    if (!start_for_ever(keeper) || !start_for_ever(body)) return fail("no thread");
    for (Pause pause; turns.descriptor.load() == 0;) pause();
    if (turns.descriptor.load() <= 0) return skip("the kernel has no seccomp notifications");
    for (int turn = 1;; ++turn) {
        for (Pause pause; turns.standing.load() < turn && turns.done.load() == 0;) pause();
        if (turns.standing.load() < turn) break;
        now_doing("fork %d while a thread was in a system call of malloc", turn);
        turns.forking = turn;
        const pid_t child = fork_of_check();
        if (child == 0) {
            if (!filled(ours, 5000, 1)) end_fork("a block of 5000 bytes that the parent had filled had changed");
            s.free(ours);
            end_fork(child_exercise(s));
        }
        turns.returned = turn;
        const char *wrong = child < 0 ? "was not born" : judge_fork(child);
        if (wrong != nullptr)
            return fail("fork %d while a thread was in a system call of malloc: the child %s", turn, wrong);
        turns.judged = turn;
        if (!filled(ours, 5000, 1))
            return fail("fork %d: a block of the parent, %p of 5000 bytes, changed", turn, ours);
    }
    return turns.judged.load() > 0 ? pass() : skip("no call of the library maps, unmaps or advises");
}

Verdict while_getting_memory(const Subject &s)
{
    return fork_at_each_call(s, [&](auto &&set_gate, auto &&next_phase) {
        if (!set_gate()) return;
        for (std::size_t size : {100ul, 5000ul, 70'000ul, 3ul << 20, 9ul << 20}) {
            next_phase();
            for (std::size_t used = 0; used < 80 << 20; used += size < 5000 ? 4 * size : size) launder(s.malloc(size));
        }
    });
}

Verdict while_giving_back_memory(const Subject &s)
{
    return fork_at_each_call(s, [&](auto &&set_gate, auto &&next_phase) {
        constexpr std::size_t sizes[] = {9 << 20, 70'000, 1 << 20};
        static void *blocks[3][100];
        for (std::size_t i = 0; i < 3; ++i)
            for (void *&block : blocks[i])
                if ((block = launder(s.malloc(sizes[i]))) != nullptr) mark(block, sizes[i], 1);
        if (!set_gate()) return;
        for (auto &row : blocks) {
            next_phase();
            for (void *block : row) s.free(block);
        }
        next_phase();
        if (s.trim != nullptr) s.trim(0);
    });
}

// --- the child ------------------------------------------------------------------------------------------------

Verdict child_frees_all(const Subject &s)
{
    constexpr int count = 500;
    static void *ours[count], *theirs[count];
    std::atomic<int> ready{0}, go{0};
    auto other = [&] {
        for (int i = 0; i < count; ++i) {
            const std::size_t size = all_sizes()[static_cast<std::size_t>(i) % 16];
            theirs[i] = launder(s.malloc(size));
            if (theirs[i] != nullptr) mark(theirs[i], size, 2);
        }
        ready = 1;
        wait_until(go, 1);
    };
    Thread<decltype(other)> thread(other);
    for (void *&block : ours)
        if ((block = launder(s.malloc(300))) != nullptr) mark(block, 300, 1);
    if (!thread.started()) return fail("no thread");
    wait_until(ready, 1);
    const char *wrong = in_fork([&]() -> const char * {
        for (int i = 0; i < count; ++i) {
            if (!marked(ours[i], 300, 1) || !marked(theirs[i], all_sizes()[static_cast<std::size_t>(i) % 16], 2))
                return wrong_text("found a block changed: %p of 300 bytes, or %p of another thread", ours[i],
                                  theirs[i]);
            s.free(ours[i]);
            s.free(theirs[i]);
        }
        return child_exercise(s);
    });
    go = 1;
    thread.join();
    if (wrong != nullptr) return fail("the child %s", wrong);
    for (int i = 0; i < count; ++i) {
        if (!marked(ours[i], 300, 1))
            return fail("the block %p of 300 bytes, which the child freed, changed in the parent", ours[i]);
        s.free(ours[i]);
        s.free(theirs[i]);
    }
    wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("the parent: %s", wrong);
}

Verdict child_forks(const Subject &s)
{
    const char *wrong = in_fork([&] {
        if (const char *early = child_exercise(s)) return early;
        return in_fork([&] {
            if (const char *early = child_exercise(s)) return early;
            return in_fork([&] { return child_exercise(s); });
        });
    });
    return wrong == nullptr ? pass() : fail("the child %s", wrong);
}

Verdict from_a_thread(const Subject &s)
{
    const char *wrong = nullptr;
    for (int i = 0; i < 10 && wrong == nullptr; ++i)
        if (!in_thread([&] {
                void *block = launder(s.malloc(1000));
                wrong = in_fork([&] {
                    s.free(block);
                    return child_exercise(s);
                });
                s.free(block);
            }))
            return fail("no thread");
    if (wrong != nullptr) return fail("the child %s", wrong);
    wrong = exercise(s);
    return wrong == nullptr ? pass() : fail("the parent: %s", wrong);
}

constexpr Check kForkChecks[] = {
    {"fork-while-a-stream-is-held",
     "fork against getline and fflush(NULL) holds no lock that they wait for",
     "POSIX.1-2024 fork: fork returns; glibc's fork takes the lock of streams, so malloc's atfork handler must not hold a lock meanwhile",
     "BZ#19431, jemalloc 5.3.0",
     {24},
     while_a_stream_is_held},
    {"malloc-in-atfork-handlers",
     "atfork handlers may malloc, before and after the fork",
     "quality: malloc works in handlers of fork with glibc, also in the child, and programs rely on it",
     "BZ#16742",
     {24},
     malloc_in_handlers},
    {"atfork-first",
     "atfork handlers set before the first malloc may malloc",
     "POSIX.1-2024 pthread_atfork: a prepare handler registered first runs last, and may call malloc",
     "BZ#16742",
     {24},
     atfork_first},
    {"fork-while-getting-memory",
     "fork while a thread is in a call that maps memory: the child can allocate",
     "quality: POSIX promises the child of a process with threads no malloc; glibc's works there, and programs rely on it",
     "BZ#19182, snmalloc#735, jemalloc#2019, gperftools#499",
     {24, 25},
     while_getting_memory},
    {"fork-while-giving-back-memory",
     "fork while a thread is in a call that gives memory back: the child can allocate",
     "quality: POSIX promises the child of a process with threads no malloc; glibc's works there, and programs rely on it",
     "snmalloc#735, jemalloc#315, jemalloc#2402, gperftools#904",
     {25},
     while_giving_back_memory},
    {"fork-child-frees-all",
     "the child may free blocks of any thread of the parent",
     "quality: POSIX promises the child of a process with threads no free; glibc's works there, and programs rely on it",
     "jemalloc#1805, gperftools#771",
     {25},
     child_frees_all},
    {"fork-child-forks",
     "the child may start threads and fork again",
     "quality: POSIX promises the child of a process with threads no malloc; glibc's works there, and programs rely on it",
     "jemalloc 5.0.1, jemalloc#2019",
     {25},
     child_forks},
    {"fork-from-a-thread",
     "fork in a thread: child and parent continue",
     "POSIX.1-2024 fork: any thread may fork; the child has that thread",
     "jemalloc#1805",
     {25},
     from_a_thread},
};

} // namespace

std::span<const Check> fork_checks()
{
    return kForkChecks;
}

} // namespace stress::conform
