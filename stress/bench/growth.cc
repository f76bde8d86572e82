// What one call costs while the heap grows: ci/lint/counts growth runs each pattern with N and with 8 N of what it grows. Each
// call is one malloc or one free. Marks between them say to callgrind and strace which calls a count is of.
#include "bench/growth.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "bench/random.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_DUMP_STATS
#define CALLGRIND_START_INSTRUMENTATION
#endif

namespace bench {
namespace {

constexpr std::size_t kKib = 1024, kMib = 1024 * kKib;

struct State {
    std::uint64_t live;
    Draw draw;
    std::vector<void *> slots{};
    std::size_t low = 64, high = 64, align = 0;
    std::size_t at = 0, before = 0;

    State(std::uint64_t wanted, std::uint64_t seed) : live(wanted), draw(seed, 0) {}

    void *fresh()
    {
        const std::size_t size = draw.between(low, high);
        if (align == 0) return malloc(size);
        void *block = nullptr;
        return posix_memalign(&block, align, size) == 0 ? block : nullptr;
    }

    void fill(std::uint64_t count)
    {
        slots.resize(count);
        for (void *&slot : slots) slot = fresh();
    }

    // Calls in turn: frees a random block, allocates into its place.
    void replace(std::uint64_t call)
    {
        if (call % 2 == 0) {
            at = draw.below(slots.size());
            free(slots[at]);
        } else {
            slots[at] = fresh();
        }
    }

    // The same with two blocks at once: a malloc may keep the one that was freed last at hand, and must search for the other.
    void replace_two(std::uint64_t call)
    {
        if (call % 4 < 2) {
            std::size_t slot = draw.below(slots.size());
            if (call % 4 == 1 && slot == at) slot = (slot + 1) % slots.size();
            before = std::exchange(at, slot);
            free(slots[at]);
        } else {
            slots[call % 4 == 2 ? before : at] = fresh();
        }
    }

    void shuffle()
    {
        for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[draw.below(i)]);
    }
};

void fill_live(State &state)
{
    state.fill(state.live);
}

void replace(State &state, std::uint64_t call)
{
    state.replace(call);
}

void replace_two(State &state, std::uint64_t call)
{
    state.replace_two(call);
}

template <std::size_t kLow, std::size_t kHigh = kLow, std::size_t kAlign = 0> void fill_sized(State &state)
{
    state.low = kLow;
    state.high = kHigh;
    state.align = kAlign;
    fill_live(state);
}

// Blocks of 150 KB over holes of 100 KB.
void fill_holes(State &state)
{
    state.low = state.high = 100 * kKib;
    fill_live(state);
    for (std::size_t i = 0; i < state.slots.size(); i += 2) free(state.slots[i]);
    state.low = state.high = 150 * kKib;
    state.fill(50);
}

// Threads that sleep, each with a heap and 50 blocks of its own.
void fill_threads(State &state)
{
    static pthread_barrier_t ready;
    pthread_barrier_init(&ready, nullptr, static_cast<unsigned>(state.live + 1));
    for (std::uint64_t i = 0; i < state.live; ++i) {
        std::thread([] {
            for (int j = 0; j < 50; ++j) store(malloc(64), 0);
            pthread_barrier_wait(&ready);
            pause();
        }).detach();
    }
    pthread_barrier_wait(&ready);
    state.fill(4000);
}

// Threads that ended, and left 50 blocks each.
void fill_orphans(State &state)
{
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < state.live; ++i)
        threads.emplace_back([] {
            for (int j = 0; j < 50; ++j) store(malloc(64), 0);
        });
    for (std::thread &thread : threads) thread.join();
    state.fill(4000);
}

// Blocks that another thread has freed, each to be had again.
void fill_remote(State &state)
{
    state.low = state.high = 1024;
    fill_live(state);
    std::thread([&] {
        for (void *block : state.slots) free(block);
    }).join();
}

void take(State &state, std::uint64_t call)
{
    state.slots[call % state.slots.size()] = state.fresh();
}

// All but each 64th block freed; then a second in which the program does nothing.
void fill_pause(State &state)
{
    fill_live(state);
    for (std::size_t i = 0; i < state.slots.size(); ++i)
        if (i % 64 != 0) free(state.slots[i]);
    usleep(1200000);
}

void fill_shuffled(State &state)
{
    state.low = state.high = 256;
    fill_live(state);
    state.shuffle();
}

void drop(State &state, std::uint64_t call)
{
    free(state.slots[call % state.slots.size()]);
}

// Until the limit of the environment answers NULL. 1 MiB for each of the live.
void fill_limit(State &state)
{
    state.low = state.high = 1000;
    for (void *block; (block = state.fresh()) != nullptr;) state.slots.push_back(block);
}

// A cache that evicts when malloc answers NULL: a malloc that fails, a free, a malloc that succeeds.
void evict(State &state, std::uint64_t call)
{
    if (call % 3 == 0) {
        free(malloc(state.low));
    } else {
        state.replace(call % 3 - 1);
    }
}

void fill_soft(State &state)
{
    state.low = state.high = 100 * kKib;
    state.fill(state.live * kMib / state.low + 20); // beyond HAKMEM_LIMIT_SOFT
}

struct Pattern {
    const char *name;
    void (*fill)(State &state);
    void (*call)(State &state, std::uint64_t call);
    bool each; // as many calls as live blocks
};

constexpr Pattern kPatterns[] = {
    {"small", fill_sized<64>, replace, false},
    {"mixed", fill_sized<16, 2048>, replace, false},
    {"middle", fill_sized<8 * kKib, 32 * kKib>, replace, false},
    {"runs-300k", fill_sized<300 * kKib>, replace_two, false},
    {"runs-700k", fill_sized<700 * kKib>, replace_two, false},
    {"runs-900k", fill_sized<900 * kKib>, replace_two, false},
    {"runs-1400k", fill_sized<1400 * kKib>, replace_two, false},
    {"aligned", fill_sized<64 * kKib, 64 * kKib, kMib>, replace_two, false},
    {"holes", fill_holes, replace_two, false},
    {"huge", fill_sized<3 * kMib>, replace, false},
    {"threads", fill_threads, replace, false},
    {"orphans", fill_orphans, replace, false},
    {"remote", fill_remote, take, true},
    {"pause", fill_pause, take, false},
    {"drop", fill_shuffled, drop, true},
    {"limit", fill_limit, evict, false},
    {"soft-limit", fill_soft, replace_two, false},
};

// callgrind writes what it has counted since the last mark; it is started without instrumentation, which makes the fill fast. In
// a log of strace the name shows.
void mark()
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_DUMP_STATS;
    prctl(PR_SET_NAME, "mark");
}

} // namespace

std::vector<std::string> growth_names()
{
    std::vector<std::string> names;
    for (const Pattern &pattern : kPatterns) names.emplace_back(pattern.name);
    return names;
}

std::optional<std::uint64_t> growth_run(const GrowthPlan &plan)
{
    const auto found = std::ranges::find_if(kPatterns, [&](const Pattern &each) { return plan.pattern == each.name; });
    if (found == std::end(kPatterns)) return std::nullopt;
    // Kept, as the program would keep it: its end is not measured.
    State &state = *new State(plan.live, 1);
    found->fill(state);
    const std::uint64_t calls = found->each ? plan.live : plan.calls;
    const std::uint64_t last = std::min(calls, plan.to);
    for (std::uint64_t i = 0; i < last; ++i) {
        if (i >= plan.from && (i - plan.from) % plan.mark == 0) mark();
        found->call(state, i);
    }
    mark();
    return last;
}

} // namespace bench
