// Threads that allocate at the same time: in one size class, when one ends and others start, while signals end their waits,
// and while signals stop them for a moment. Each thread fills its blocks and checks them: a block that two threads have shows.
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include "conform/check.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

// Allocates, fills, checks and frees blocks of two sizes. What was wrong, or null.
const char *hammer(const Subject &s, unsigned char seed, std::size_t rounds)
{
    unsigned char *blocks[16] = {};
    const auto size_of = [](std::size_t slot) { return slot % 2 == 0 ? 48ul : 200ul; };
    const char *wrong = nullptr;
    for (std::size_t i = 0; i < rounds + 16; ++i) {
        const std::size_t slot = i % 16, size = size_of(slot);
        if (blocks[slot] != nullptr && !filled(blocks[slot], size, seed))
            wrong = wrong_text("the live block %p of %zu bytes changed, while other threads allocate",
                               static_cast<void *>(blocks[slot]), size);
        if (wrong != nullptr) return wrong; // the heap is left as it is
        s.free(blocks[slot]);
        blocks[slot] = i < rounds ? bytes_of(launder(s.malloc(size))) : nullptr;
        if (blocks[slot] != nullptr) fill(blocks[slot], size, seed);
    }
    return nullptr;
}

// The last round of a thread's destructors, and three threads that were started during it.
struct AtOnce {
    const Subject *subject;
    pthread_key_t key;
    int rounds_left;
    std::atomic<const char *> wrong;
};
constexpr std::size_t kHammered = 300'000;

void at_once(void *value)
{
    auto &it = *static_cast<AtOnce *>(value);
    if (--it.rounds_left > 0) {
        pthread_setspecific(it.key, value);
        return;
    }
    if (const char *wrong = hammer(*it.subject, 1, 100)) it.wrong = wrong; // takes what it now allocates with
    std::atomic<unsigned char> seeds{2};
    auto fresh = [&] {
        if (const char *wrong = hammer(*it.subject, seeds.fetch_add(1), kHammered)) it.wrong = wrong;
    };
    Thread<decltype(fresh)> first(fresh), second(fresh), third(fresh);
    if (const char *wrong = hammer(*it.subject, 1, kHammered)) it.wrong = wrong;
}

Verdict last_and_first(const Subject &s)
{
    static AtOnce it{&s, 0, 0, nullptr};
    if (pthread_key_create(&it.key, at_once) != 0) return fail("no key for thread-specific data");
    for (int i = 0; i < 4 && it.wrong.load() == nullptr; ++i) {
        it.rounds_left = 4;
        if (!in_thread([&] {
                if (const char *wrong = hammer(s, 9, 100)) it.wrong = wrong;
                pthread_setspecific(it.key, &it);
            }))
            return fail("no thread");
    }
    return it.wrong.load() == nullptr ? pass() : fail("%s", it.wrong.load());
}

// More blocks than a cache of a thread holds, so that threads meet in what they share: a class's slabs, lists, locks.
const char *bursts(const Subject &s, unsigned char seed, std::size_t rounds)
{
    unsigned char *blocks[200];
    for (std::size_t i = 0; i < rounds; ++i) {
        const std::size_t size = i % 4 == 3 ? 1000 : 48;
        for (auto &block : blocks) {
            block = bytes_of(launder(s.malloc(size)));
            if (block == nullptr) return wrong_text("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
            fill(block, size, seed);
        }
        for (auto *block : blocks) {
            if (!filled(block, size, seed))
                return wrong_text("the live block %p of %zu bytes changed, while four threads allocate blocks of the "
                                  "same sizes",
                                  static_cast<void *>(block), size);
            s.free(block);
        }
    }
    return nullptr;
}

// Four threads; `beside` is called with each of them, again and again, until all have done their rounds.
template <typename Beside> const char *bursts_at_once(const Subject &s, std::size_t rounds, Beside &&beside)
{
    std::atomic<const char *> wrong{nullptr};
    std::atomic<int> begun{0}, started{0}, done{0}, over{0};
    pthread_t threads[4];
    auto body = [&] {
        const int index = begun.fetch_add(1);
        threads[index] = pthread_self();
        started.fetch_add(1);
        if (const char *text = bursts(s, static_cast<unsigned char>(index + 1), rounds)) wrong = text;
        done.fetch_add(1);
        for (Pause pause; over.load() == 0;) pause(); // its number stays its own
    };
    Thread<decltype(body)> first(body), second(body), third(body), fourth(body);
    if (!first.started() || !second.started() || !third.started() || !fourth.started()) {
        over = 1;
        return "no thread";
    }
    wait_until(started, 4);
    while (done.load() < 4)
        for (pthread_t thread : threads) beside(thread);
    over = 1;
    return wrong.load();
}

Verdict shared_class(const Subject &s)
{
    const char *wrong = bursts_at_once(s, 1500, [](pthread_t) { sleep_ms(1); });
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// A malloc may have a table with a place for each thread, and more threads than places. All of these threads have
// allocated before the first of them ends; then all allocate at once.
Verdict many_threads(const Subject &s)
{
    constexpr int kThreads = 300, kWaves = 3;
    constexpr std::size_t kRounds = 3000;
    std::atomic<const char *> wrong{nullptr};
    for (int wave = 0; wave < kWaves && wrong.load() == nullptr; ++wave) {
        std::atomic<int> numbers{1}, started{0}, go{0};
        auto body = [&] {
            const unsigned char seed = static_cast<unsigned char>(numbers.fetch_add(1));
            const char *found = s.malloc(1) == nullptr ? "malloc(1) gave NULL" : hammer(s, seed, 100);
            ++started;
            wait_until(go, 1);
            if (found == nullptr) found = hammer(s, seed, kRounds);
            if (found != nullptr) wrong = found;
        };
        std::optional<Thread<decltype(body)>> threads[kThreads];
        int count = 0;
        for (auto &thread : threads) count += thread.emplace(body).started();
        while (started.load() < count) sleep_ms(1);
        go = 1;
        for (auto &thread : threads) thread->join();
        if (count < kThreads && wrong.load() == nullptr) return skip("only %d threads can be started", count);
    }
    return wrong.load() == nullptr ? pass() : fail("%s", wrong.load());
}

Verdict interrupted_waits(const Subject &s)
{
    struct sigaction action{}, before{};
    action.sa_handler = [](int) {}; // no SA_RESTART: a wait in the malloc returns
    sigaction(SIGUSR1, &action, &before);
    const char *wrong = bursts_at_once(s, 1500, [](pthread_t thread) {
        pthread_kill(thread, SIGUSR1);
        const timespec pause{0, 20'000};
        nanosleep(&pause, nullptr);
    });
    sigaction(SIGUSR1, &before, nullptr);
    return wrong == nullptr ? pass() : fail("%s", wrong);
}

// Each of 16 lines starts a thread, waits for its end, and starts the next. A signal holds each thread up for some
// milliseconds, at a chance moment of its first calls, while the threads of the other lines come and go: what the held
// thread had read of a list or of a thread's memory may then be out of date. Blocks move from thread to thread through
// boxes; the one that takes a block out checks and frees it.
struct Boxed {
    std::size_t size;
    unsigned char seed;
};

double processor_seconds()
{
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

struct HeldUp {
    static constexpr std::size_t kLines = 16, kBoxes = 64, kStartsMax = 30'000;
    static constexpr double kProcessorSecondsMax = 8; // of the processor: other processes do not shorten the check
    const Subject *subject = nullptr;
    std::atomic<unsigned char *> boxes[kBoxes] = {};
    std::atomic<std::size_t> starts{0}, holds{0};
    std::atomic<const char *> wrong{nullptr};
    bool may_continue() const
    {
        return wrong.load() == nullptr && starts.load() < kStartsMax && processor_seconds() < kProcessorSecondsMax;
    }
};

constexpr std::size_t kHeldSizes[] = {24, 136, 1000, 70'000};

// A thread adopts what others left in the first microseconds: the list of mimalloc#164 broke most often when a hold came 12
// to 20 us after the timer was set. Each fourth hold comes at a wider range of times.
constexpr long kHeldForNs = 3'000'000;

long hold_after_ns(std::size_t turn)
{
    const long mixed = static_cast<long>(turn * 7919);
    return turn % 4 == 3 ? 2'000 + mixed % 60'000 : 12'000 + mixed % 8'000;
}

// Sends the calling thread a signal once, some microseconds from now. False if there is no timer.
bool arm_hold(std::size_t turn, timer_t &timer)
{
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return false;
    const itimerspec once{{0, 0}, {0, hold_after_ns(turn)}};
    timer_settime(timer, 0, &once, nullptr);
    return true;
}

const char *pass_blocks(HeldUp &it, std::size_t turn)
{
    const Subject &s = *it.subject;
    for (std::size_t i = 0; i < 12; ++i) {
        const Boxed made{kHeldSizes[i % 4], static_cast<unsigned char>(turn + i)};
        unsigned char *block = bytes_of(launder(s.malloc(made.size)));
        if (block == nullptr) return wrong_text("malloc(%zu) gave NULL, errno %s", made.size, errno_text(errno));
        fill(block + sizeof made, made.size - sizeof made, made.seed);
        memcpy(block, &made, sizeof made);
        unsigned char *other = it.boxes[(turn * 7 + i * 5) % HeldUp::kBoxes].exchange(block);
        if (other == nullptr) continue;
        Boxed found;
        memcpy(&found, other, sizeof found);
        if (found.size > kHeldSizes[3] || !filled(other + sizeof found, found.size - sizeof found, found.seed))
            return wrong_text("the live block %p changed, while a signal held up another thread in malloc or free",
                              static_cast<void *>(other));
        s.free(other);
    }
    return nullptr;
}

Verdict held_up(const Subject &s)
{
    static HeldUp it;
    it.subject = &s;
    struct sigaction action{}, before{};
    action.sa_handler = [](int) {
        const int error = errno;
        const timespec hold{0, kHeldForNs};
        nanosleep(&hold, nullptr);
        errno = error;
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &before);
    auto line = [&] {
        auto one = [&] {
            const std::size_t turn = it.starts.fetch_add(1);
            timer_t timer{};
            const bool armed = arm_hold(turn, timer);
            if (const char *text = pass_blocks(it, turn)) it.wrong = text;
            if (!armed) return;
            it.holds.fetch_add(1);
            timer_delete(timer);
        };
        while (it.may_continue())
            if (!in_thread(one)) it.wrong = "no thread";
    };
    now_doing("malloc and free in short threads that signals hold up");
    {
        std::optional<Thread<decltype(line)>> lines[HeldUp::kLines];
        for (auto &one : lines) one.emplace(line);
    }
    sigaction(SIGUSR1, &before, nullptr);
    if (it.wrong.load() != nullptr) return fail("%s", it.wrong.load());
    return it.holds.load() != 0 ? pass() : skip("no timer");
}

constexpr Check kMeetChecks[] = {
    {"last-and-first-moments",
     "a thread in its last destructors and fresh threads allocate at once, each for itself",
     "C23 7.24.3: blocks are disjoint; malloc may be called by any thread, in its destructors too",
     "mimalloc#1177",
     {18, 20},
     last_and_first},
    {"one-class-at-once",
     "four threads that allocate and free the same sizes get blocks of their own",
     "C23 7.24.3: blocks are disjoint; calls of several threads appear to be made one after another",
     "rpmalloc#281, mimalloc 6e9b38ac",
     {33},
     shared_class},
    {"many-threads-at-once",
     "300 threads that live and allocate at once get blocks of their own",
     "C23 7.24.3: blocks are disjoint; POSIX.1-2024 2.9.1: any thread may call malloc, however many there are",
     "stress/canary/mini: threads_48",
     {33},
     many_threads},
    {"waits-that-signals-end",
     "a signal that ends a wait in malloc does not let two threads in",
     "POSIX.1-2024 2.9.1: malloc and free are thread-safe; 2.4.3: a signal interrupts a call, which then continues",
     "jemalloc#2951",
     {39},
     interrupted_waits},
    {"held-up-by-a-signal",
     "threads that a signal holds up in malloc or free, while others start and end, get blocks of their own",
     "C23 7.24.3: blocks are disjoint; calls of several threads appear to be made one after another, however long one takes",
     "mimalloc#164, rpmalloc#32",
     {18, 33},
     held_up},
};

} // namespace

std::span<const Check> meet_checks()
{
    return kMeetChecks;
}

} // namespace stress::conform
