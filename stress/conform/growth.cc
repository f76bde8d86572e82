// Freed memory must be reused or returned: short forms of what stress runs watch for hours.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "conform/check.h"
#include "conform/support.h"
#include "conform/process.h"

namespace stress::conform {
namespace {

// Compares the process's memory at the end with that at the start.
Verdict grown(std::size_t before, std::size_t after, std::size_t allowed, const char *what)
{
    if (after <= before + allowed) return pass();
    return fail("%s added %zu MiB, more than %zu MiB", what, (after - before) / kMib, allowed / kMib);
}

double thread_cpu_seconds()
{
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// A ring of slots: a producer fills them, and a thread that never allocates empties them.
Verdict thread_that_only_frees(const Subject &s)
{
    constexpr std::size_t slots = 256, rounds = 400'000;
    static std::atomic<void *> ring[slots];
    std::atomic<int> stop{0};
    auto consumer = [&] {
        while (stop.load(std::memory_order_acquire) == 0)
            for (auto &slot : ring)
                if (void *block = slot.exchange(nullptr, std::memory_order_acquire)) s.free(block);
        for (auto &slot : ring) s.free(slot.exchange(nullptr));
    };
    const std::size_t before = resident_bytes();
    Thread<decltype(consumer)> thread(consumer);
    if (!thread.started()) return fail("no thread");
    const double end = now_seconds() + 4;
    for (std::size_t i = 0; i < rounds && (i % 1024 != 0 || now_seconds() < end); ++i) {
        void *block = launder(s.malloc(1000));
        if (block == nullptr) return fail("malloc gave NULL, errno %s", errno_text(errno));
        memset(block, 1, 1000);
        void *none = nullptr;
        for (Pause pause; !ring[i % slots].compare_exchange_strong(none, block, std::memory_order_release); pause())
            none = nullptr;
    }
    stop.store(1, std::memory_order_release);
    thread.join();
    return grown(before, resident_bytes(), 64 * kMib, "400 MB handed to a thread that only frees");
}

// Phases of small sizes, one after another. Memory of earlier phases must serve later ones.
Verdict phases(const Subject &s)
{
    constexpr std::size_t bytes = 96 * kMib;
    static void *blocks[bytes / 512];
    const std::size_t before = resident_bytes();
    for (std::size_t size : {60'000ul, 2000ul, 16'000ul, 512ul, 30'000ul, 1000ul, 200'000ul, 700ul}) {
        const std::size_t count = bytes / size;
        for (std::size_t i = 0; i < count; ++i)
            if ((blocks[i] = launder(s.malloc(size))) != nullptr) memset(blocks[i], 1, size);
        for (std::size_t i = 0; i < count; ++i) s.free(blocks[i]);
    }
    return grown(before, resident_bytes(), 4 * bytes, "eight phases of 96 MiB each, of different sizes,");
}

Verdict address_space(const Subject &s)
{
    const auto round = [&](std::size_t seed) {
        for (std::size_t i = 0; i < 200; ++i) {
            const std::size_t size = (3 << 20) + (seed * 200 + i) * 70'001 % (60 << 20);
            void *block = launder(s.malloc(size));
            if (block != nullptr) mark(block, size, 1);
            void *other = launder(s.malloc(size / 3));
            s.free(block);
            s.free(other);
        }
    };
    for (std::size_t i = 0; i < 5; ++i) round(i);
    const std::size_t before = address_space_bytes();
    for (std::size_t i = 5; i < 60; ++i) round(i);
    return grown(before, address_space_bytes(), 1024 * kMib, "address space: 11,000 huge blocks, freed at once,");
}

Verdict growing_and_shrinking(const Subject &s)
{
    const std::size_t before = resident_bytes();
    for (int i = 0; i < 3000; ++i) {
        void *block = launder(s.malloc(100));
        for (std::size_t size = 200; size < 3 * kMib; size *= 3) {
            block = launder(s.realloc(block, size));
            if (block == nullptr) return fail("realloc to %zu bytes gave NULL, errno %s", size, errno_text(errno));
            mark(block, size, 1);
        }
        s.free(block);
    }
    return grown(before, resident_bytes(), 64 * kMib, "3000 blocks grown to 2 MiB one after the other");
}

// A realloc that copies at each step costs the square of the steps. A copy is seen by what it touches: the block's inner pages
// have no memory before the call, and have memory after it. A block that stays, or that the kernel moves, has none.
Verdict realloc_in_small_steps(const Subject &s)
{
    constexpr std::size_t steps = 200, copies_max = 20, size_max = 32 * kMib + 16 * steps;
    static std::vector<unsigned char> resident(size_max / 4096 + 1);
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    struct Pages {
        char *start;
        std::size_t bytes;
    };
    const auto inner = [&](void *block, std::size_t size) {
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(block), first = (address + page) / page * page;
        return Pages{static_cast<char *>(block) + (first - address), (address + size) / page * page - first};
    };
    for (std::size_t size : {1 * kMib, 8 * kMib, 32 * kMib}) {
        void *block = launder(s.malloc(size));
        if (block == nullptr) return fail("malloc(%zu) gave NULL, errno %s", size, errno_text(errno));
        std::size_t copies = 0;
        for (std::size_t step = 1; step <= steps; ++step) {
            const Pages before = inner(block, size + 16 * (step - 1));
            if (madvise(before.start, before.bytes, MADV_DONTNEED) != 0)
                return skip("madvise of a block fails: %s", errno_text(errno));
            if ((block = launder(s.realloc(block, size + 16 * step))) == nullptr)
                return fail("realloc to %zu bytes gave NULL, errno %s", size + 16 * step, errno_text(errno));
            const Pages after = inner(block, size + 16 * step);
            if (mincore(after.start, after.bytes, resident.data()) != 0)
                return skip("mincore of a block fails: %s", errno_text(errno));
            std::size_t pages = 0;
            for (std::size_t i = 0; i < after.bytes / page; ++i) pages += resident[i] & 1;
            copies += pages > after.bytes / page / 2;
        }
        s.free(block);
        if (copies > copies_max)
            return fail("%zu times realloc of %zu bytes to 16 more copied the block %zu times, more than %zu", steps,
                        size, copies, copies_max);
    }
    return pass();
}

Verdict realloc_retention(const Subject &s)
{
    constexpr std::size_t count = 1000;
    static void *blocks[count];
    const std::size_t before = resident_bytes();
    for (void *&block : blocks) {
        if ((block = launder(s.malloc(300'000))) == nullptr)
            return fail("malloc gave NULL, errno %s", errno_text(errno));
        memset(block, 1, 300'000);
        block = launder(s.realloc(block, 100));
    }
    if (s.trim != nullptr) s.trim(0);
    std::size_t after = resident_bytes();
    for (int looks = 0; looks < 40 && after > before + 150 * kMib; ++looks, after = resident_bytes())
        sleep_ms(50); // for a thread of the library that gives memory back
    for (void *block : blocks) s.free(block);
    return grown(before, after, 150 * kMib, "1000 blocks shrunk from 300,000 bytes to 100");
}

Verdict trim_gives_back(const Subject &s)
{
    if (s.trim == nullptr) return not_provided("malloc_trim");
    constexpr std::size_t count = 60'000;
    static void *blocks[count];
    auto take = [&] {
        for (void *&block : blocks)
            if ((block = launder(s.malloc(1500))) != nullptr) memset(block, 1, 1500);
    };
    for (bool own_thread : {false, true}) {
        const std::size_t before = resident_bytes();
        if (!own_thread) take();
        else if (!in_thread(take)) return fail("no thread");
        void *last = launder(s.malloc(100)); // keeps the end in use, for a heap that grows at its end
        const std::size_t most = resident_bytes();
        for (void *block : blocks) s.free(block);
        s.trim(0);
        const std::size_t after = resident_bytes();
        s.free(last);
        if (after > before + (most - before) / 2)
            return fail("malloc_trim leaves %zu of %zu MiB, all of them free, %s", (after - before) / kMib,
                        (most - before) / kMib, own_thread ? "of a thread that has ended" : "of this thread");
    }
    return pass();
}

Verdict trim_while_busy(const Subject &s)
{
    if (s.trim == nullptr) return not_provided("malloc_trim");
    std::atomic<int> stop{0};
    auto busy = [&] {
        void *blocks[64] = {};
        for (std::size_t i = 0; stop.load(std::memory_order_relaxed) == 0; ++i) {
            s.free(blocks[i % 64]);
            blocks[i % 64] = launder(s.malloc(i % 3000));
        }
        for (void *block : blocks) s.free(block);
    };
    Thread<decltype(busy)> thread(busy);
    static void *blocks[1000];
    const std::size_t before = resident_bytes();
    for (void *&block : blocks)
        if ((block = launder(s.malloc(70'000))) != nullptr) memset(block, 1, 70'000);
    for (void *block : blocks) s.free(block);
    for (int i = 0; i < 5; ++i) s.trim(0);
    const std::size_t after = resident_bytes();
    stop = 1;
    thread.join();
    return grown(before, after, 35 * kMib, "70 MB freed and trimmed while another thread allocates");
}

// Aligned blocks among many free pieces: a malloc that searches all pieces on each call takes for ever.
Verdict memalign_scan(const Subject &s)
{
    if (s.memalign == nullptr) return not_provided("memalign");
    constexpr std::size_t count = 20'000;
    static void *blocks[count], *between[count];
    const double start = thread_cpu_seconds();
    for (std::size_t i = 0; i < count; ++i) {
        blocks[i] = launder(s.memalign(256, 1100));
        between[i] = launder(s.malloc(40));
    }
    for (void *block : blocks) s.free(block);
    for (std::size_t i = 0; i < count; ++i) {
        blocks[i] = launder(s.memalign(512, 1100 + i % 64 * 16));
        if (thread_cpu_seconds() > start + 5)
            return fail("%zu calls of memalign(512, 1100 to 2108) among %zu free pieces took 5 s of processor time", i,
                        count);
    }
    for (std::size_t i = 0; i < count; ++i) {
        s.free(blocks[i]);
        s.free(between[i]);
    }
    return pass();
}

constexpr Check kGrowthChecks[] = {
    {"thread-that-only-frees",
     "memory freed by a thread that never allocates is reused",
     "quality: memory stays in proportion to what is live",
     "mimalloc#1364, mimalloc#333, mimalloc#177",
     {36},
     thread_that_only_frees},
    {"phases-of-other-sizes",
     "memory of one size class serves the others when it is free",
     "quality: memory stays in proportion to what is live",
     "rpmalloc 1.4.5, mimalloc#351, mimalloc#994, jemalloc 5.1.0",
     {36, 37},
     phases},
    {"address-space",
     "huge blocks that are freed leave no address space behind",
     "quality: address space stays in proportion to what is live",
     "jemalloc 4.3.1, jemalloc#2838, jemalloc#1572",
     {36},
     address_space},
    {"growing-and-shrinking",
     "memory that realloc moves away from is reused",
     "quality: memory stays in proportion to what is live",
     "jemalloc 5.1.0",
     {36},
     growing_and_shrinking},
    {"realloc-in-small-steps",
     "realloc that grows a large block by little at a time does not copy it each time",
     "quality: the cost of growing a block by many small steps is not the square of their number",
     "mimalloc#153",
     {37},
     realloc_in_small_steps},
    {"realloc-retention",
     "realloc to a small size keeps no large block",
     "quality: a block that was shrunk far gives its memory back",
     "BZ#30579",
     {37},
     realloc_retention},
    {"trim-gives-back",
     "malloc_trim returns free memory, also that of ended threads",
     "malloc_trim(3): releases free memory of the heap, of whole pages in every arena since glibc 2.8",
     "BZ#17195",
     {37},
     trim_gives_back},
    {"trim-while-busy",
     "malloc_trim returns memory while other threads allocate",
     "malloc_trim(3): releases free memory of the heap, of whole pages in every arena since glibc 2.8",
     "mimalloc#1246",
     {37},
     trim_while_busy},
    {"memalign-scan",
     "memalign does not walk all free pieces",
     "quality: aligned blocks do not become slow or large as they are allocated and freed",
     "BZ#30723",
     {37},
     memalign_scan},
};

} // namespace

std::span<const Check> growth_checks()
{
    return kGrowthChecks;
}

} // namespace stress::conform
