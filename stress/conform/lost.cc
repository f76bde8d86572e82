// Freed memory comes back: loops that keep nothing, made in equal phases. A malloc may keep what it likes of the first
// two, which fill its caches. One that grows in each of the later phases loses something each time.
//
// No bound is absolute, so a malloc may keep much. Phases of one thread, or of threads that come one after another, meet
// the same states whatever the machine does.
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "conform/check.h"
#include "conform/process.h"
#include "conform/support.h"

namespace stress::conform {
namespace {

constexpr std::size_t kPhases = 8, kWarm = 2;
constexpr std::size_t kGrowthMin = 64 << 10; // of a phase that counts as growth; a loss is made to be twice as much

constexpr struct {
    std::size_t (*now)();
    std::size_t growth_min;
    const char *unit;
} kHeld[] = {{resident_bytes, kGrowthMin, "resident bytes"}, {first_free_descriptor, 1, "open descriptors"}};

// Runs the phases, and fails if each of them after the first two leaves more behind. `phase` returns what was wrong.
template <typename Phase> Verdict plateau(const char *what, Phase &&phase)
{
    constexpr std::size_t figures = std::size(kHeld);
    std::size_t held[kPhases][figures], least[figures];
    std::fill(std::begin(least), std::end(least), SIZE_MAX);
    for (std::size_t i = 0; i < kPhases; ++i) {
        if (const char *wrong = phase()) return fail("%s", wrong);
        for (std::size_t f = 0; f < figures; ++f) {
            held[i][f] = kHeld[f].now();
            if (i >= kWarm) least[f] = std::min(least[f], held[i][f] - std::min(held[i][f], held[i - 1][f]));
        }
    }
    for (std::size_t f = 0; f < figures; ++f)
        if (least[f] >= kHeld[f].growth_min)
            return fail("%s: each of %zu equal phases leaves at least %zu more %s; %zu in all", what, kPhases - kWarm,
                        least[f], kHeld[f].unit, held[kPhases - 1][f] - held[kWarm - 1][f]);
    return pass();
}

// --- by one thread --------------------------------------------------------------------------------------------------

enum class How { Malloc, Calloc, Realloc, Aligned };

void *take(const Subject &s, How how, std::size_t size)
{
    switch (how) {
    case How::Calloc: return launder(s.calloc(1, size));
    case How::Realloc: return launder(s.realloc(launder(s.malloc(size / 2)), size));
    case How::Aligned: return launder(s.memalign(64, size));
    default: return launder(s.malloc(size));
    }
}

// As many blocks as make one lost in `one_in` twice the growth that counts.
Verdict lost_frees(const Subject &s, How how, const char *what, std::size_t one_in)
{
    for (std::size_t size : {500ul, 2000ul, 8000ul, 30'000ul}) {
        constexpr std::size_t window = 32;
        static void *blocks[window];
        const Verdict verdict = plateau(what, [&]() -> const char * {
            // The middle sizes make the most of a call: small in most mallocs, and a page to touch.
            const std::size_t rare = size == 8000 ? 10 * one_in : one_in;
            for (std::size_t i = 0; i < 2 * kGrowthMin * rare / size; ++i) {
                s.free(blocks[i % window]);
                blocks[i % window] = take(s, how, size);
                if (blocks[i % window] == nullptr)
                    return wrong_text("%zu bytes: NULL, errno %s", size, errno_text(errno));
                for (std::size_t at = 0; at < size; at += 4096) bytes_of(blocks[i % window])[at] = 1;
            }
            return nullptr;
        });
        for (void *&block : blocks) s.free(std::exchange(block, nullptr));
        if (verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

Verdict freed_after_malloc(const Subject &s)
{
    return lost_frees(s, How::Malloc, "32 blocks that are freed and allocated in turn", 10'000);
}

// As much as takes new memory from the system, and all of it freed.
Verdict freed_bursts(const Subject &s)
{
    static void *blocks[3000];
    return plateau("bursts of 9 MiB that are freed", [&]() -> const char * {
        for (int burst = 0; burst < 4; ++burst) {
            for (void *&block : blocks)
                if ((block = launder(s.malloc(3000))) != nullptr) memset(block, 1, 3000);
            for (void *block : blocks) s.free(block);
        }
        return nullptr;
    });
}

Verdict freed_after_others(const Subject &s)
{
    for (How how : {How::Calloc, How::Realloc, How::Aligned}) {
        if (how == How::Aligned && s.memalign == nullptr) continue;
        const Verdict verdict = lost_frees(s, how,
                                           how == How::Calloc    ? "blocks of calloc"
                                           : how == How::Realloc ? "blocks that realloc has grown"
                                                                 : "blocks of memalign",
                                           1000);
        if (verdict.status != Status::Pass) return verdict;
    }
    return pass();
}

// --- by threads that end --------------------------------------------------------------------------------------------

constexpr std::size_t kSizes = 60, kOfEach = 4, kThreads = 60;
void *row[kSizes][kOfEach];

std::size_t size_at(std::size_t index)
{
    return index < 40 ? 16 * index + 16 : 1000 + (index - 40) * 400;
}

void take_row(const Subject &s)
{
    for (std::size_t i = 0; i < kSizes; ++i)
        for (void *&block : row[i])
            if ((block = launder(s.malloc(size_at(i)))) != nullptr) memset(block, 1, size_at(i));
}

void free_row(const Subject &s)
{
    for (auto &blocks : row)
        for (void *&block : blocks) s.free(std::exchange(block, nullptr));
}

Verdict ended_threads(const Subject &s)
{
    return plateau("threads, one after the other, that free what they allocate", [&]() -> const char * {
        for (std::size_t i = 0; i < kThreads; ++i)
            if (!in_thread([&] {
                    take_row(s);
                    free_row(s);
                }))
                return "no thread";
        return nullptr;
    });
}

// The key's destructor sets itself again, so it runs after those of the malloc.
const Subject *last_subject;
pthread_key_t last_key;

void at_last(void *value)
{
    auto &rounds_left = *static_cast<int *>(value);
    if (--rounds_left == 0) free_row(*last_subject);
    else pthread_setspecific(last_key, value);
}

// A thread has freed and allocated, so the malloc knows it; the blocks of its last moments are another's.
Verdict last_moments(const Subject &s)
{
    last_subject = &s;
    if (pthread_key_create(&last_key, at_last) != 0) return fail("no key for thread-specific data");
    const Verdict verdict = plateau("threads that free in the last round of their destructors", [&]() -> const char * {
        for (std::size_t i = 0; i < kThreads; ++i) {
            take_row(s);
            static int rounds_left;
            rounds_left = 4;
            if (!in_thread([&] {
                    s.free(launder(s.malloc(100)));
                    pthread_setspecific(last_key, &rounds_left);
                }))
                return "no thread";
        }
        return nullptr;
    });
    pthread_key_delete(last_key);
    return verdict;
}

// --- live blocks ----------------------------------------------------------------------------------------------------

// Neighbours are found by their addresses. Each may be used to the end of its usable size, so none may begin there.
Verdict usable_apart(const Subject &s)
{
    if (s.usable_size == nullptr) return not_provided("malloc_usable_size");
    constexpr std::size_t count = 48;
    for (std::size_t size = 1; size <= 40'000; size += size < 2048 ? 8 : size / 16) {
        unsigned char *blocks[count];
        for (auto &block : blocks) {
            block = bytes_of(launder(s.malloc(size)));
            if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
        }
        std::sort(std::begin(blocks), std::end(blocks));
        for (std::size_t i = 0; i + 1 < count; ++i) {
            const std::size_t usable = s.usable_size(blocks[i]);
            if (usable <= static_cast<std::size_t>(blocks[i + 1] - blocks[i])) continue;
            return fail("malloc_usable_size of the block %p of %zu bytes is %zu, and the block %p lies in it",
                        static_cast<void *>(blocks[i]), size, usable, static_cast<void *>(blocks[i + 1]));
        }
        for (auto *block : blocks) s.free(block);
    }
    return pass();
}

constexpr Check kLostChecks[] = {
    {"lost-frees",
     "a loop of malloc and free keeps what it has: no free in 10,000 is lost, of 8000 bytes none in 100,000",
     "quality: memory stays in proportion to what is live",
     "mimalloc#1177, jemalloc 5.1.0",
     {36},
     freed_after_malloc},
    {"lost-frees-of-others",
     "a loop of calloc, realloc or memalign, and free, keeps what it has: no free in 1000 is lost",
     "quality: memory stays in proportion to what is live",
     "jemalloc 5.1.0",
     {36},
     freed_after_others},
    {"lost-in-bursts",
     "a burst that is freed leaves neither memory nor descriptors behind, whenever it comes again",
     "quality: memory and descriptors stay in proportion to what is live",
     "jemalloc 5.1.0",
     {36},
     freed_bursts},
    {"lost-at-thread-end",
     "threads that end leave nothing behind, of any size class",
     "quality: memory stays in proportion to what is live, not to the threads that have ended",
     "mimalloc#333, mimalloc#1288",
     {19, 36},
     ended_threads},
    {"lost-in-last-moments",
     "what a thread frees in the last round of its destructors serves others",
     "quality: memory stays in proportion to what is live, not to the threads that have ended",
     "mimalloc#1177",
     {20, 36},
     last_moments},
    {"usable-sizes-apart",
     "no block begins within the usable size of another",
     "C23 7.24.3: blocks are disjoint; malloc_usable_size(3): the bytes up to the usable size can be written",
     "gperftools 4e24f4a",
     {13, 38},
     usable_apart},
};

} // namespace

std::span<const Check> lost_checks()
{
    return kLostChecks;
}

} // namespace stress::conform
