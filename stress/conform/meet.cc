// Threads that meet: in one size class, at the end of one and the start of others, and while signals end their waits. Each
// fills its blocks and checks them, so a block that two threads have shows.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <cerrno>

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
            wrong = wrong_text("the live block %p of %zu bytes changed, while a thread in its destructors and a fresh "
                               "one allocate",
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
    {"waits-that-signals-end",
     "a signal that ends a wait in malloc does not let two threads in",
     "POSIX.1-2024 2.9.1: malloc and free are thread-safe; 2.4.3: a signal interrupts a call, which then continues",
     "jemalloc#2951",
     {39},
     interrupted_waits},
};

} // namespace

std::span<const Check> meet_checks()
{
    return kMeetChecks;
}

} // namespace stress::conform
