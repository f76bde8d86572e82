// pagemap_test.cc: tags and descriptors of a started map, and law 6 as far as the page map goes. cache/fresh_test.cc
// tests the map before start and the fallback window. More than 400 lines: all use one map.
#include "base/test_support.h"

#include <cerrno>
#include <sched.h>

extern "C" {
#include "base/sizeclass.h"
#include "hakmem/hakmem.h"
#include "os/meta.h"
#include "os/os.h"
#include "superslab/pagemap.h"
}

namespace {

const void *address(uintptr_t value)
{
    return reinterpret_cast<const void *>(value);
}

} // namespace

TEST(PageMap, NullAndWhatIsNotOurs)
{
    EXPECT_EQ(pagemap_tag(nullptr), 0u);
    EXPECT_EQ(pagemap_tag_checked(nullptr), 0u);
    int on_the_stack = 0;
    EXPECT_EQ(pagemap_tag_checked(&on_the_stack), 0u);
    EXPECT_EQ(pagemap_tag_checked(address(1)), 0u);
    EXPECT_EQ(pagemap_descriptor(&on_the_stack), nullptr);
}

TEST(PageMap, AddressesBeyondTheMap)
{
    if (!pagemap_is_window()) {
        EXPECT_EQ(pagemap_tag_checked(address(((uintptr_t)1 << HAK_ADDRESS_BITS) - 1)), 0u);
    }
    for (uintptr_t value : {(uintptr_t)1 << HAK_ADDRESS_BITS, (uintptr_t)1 << 63, UINTPTR_MAX, UINTPTR_MAX - PAGE_BYTES,
                            (uintptr_t)0xdeadbeefdeadbeef}) {
        EXPECT_EQ(pagemap_tag_checked(address(value)), 0u);
        EXPECT_EQ(pagemap_descriptor(address(value)), nullptr);
    }
}

TEST(PageMap, TagsAreSetAndCleared)
{
    char *start = static_cast<char *>(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    ASSERT_TRUE(test::is_aligned(start, SUPERSLAB_BYTES));
    auto tags = [start] {
        std::vector<uint32_t> all;
        for (uint32_t page = 0; page < SUPERSLAB_PAGES; page++) {
            all.push_back(pagemap_tag(start + page * PAGE_BYTES));
            EXPECT_EQ(all.back(), pagemap_tag_checked(start + (page + 1) * PAGE_BYTES - 1));
        }
        return all;
    };
    std::vector<uint32_t> expected(SUPERSLAB_PAGES, 0);
    EXPECT_EQ(tags(), expected);
    pagemap_tag_set(start, SUPERSLAB_PAGES, 0xabcdef12);
    std::fill(expected.begin(), expected.end(), 0xabcdef12);
    EXPECT_EQ(tags(), expected);
    pagemap_tag_set(start + 3 * PAGE_BYTES, 4, 7);
    std::fill(expected.begin() + 3, expected.begin() + 7, 7);
    EXPECT_EQ(tags(), expected);
    EXPECT_EQ(pagemap_tag_checked(start - 1), 0u);
    EXPECT_EQ(pagemap_tag_checked(start + SUPERSLAB_BYTES), 0u);
    pagemap_tag_set(start, SUPERSLAB_PAGES, 0);
    EXPECT_EQ(tags(), std::vector<uint32_t>(SUPERSLAB_PAGES, 0));
    EXPECT_EQ(os->release(start, SUPERSLAB_BYTES), 0);
}

TEST(PageMap, DescriptorsReachFourMebibytes)
{
    char *start = static_cast<char *>(pagemap_reserve(2 * SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    int first = 0, second = 0;
    pagemap_descriptor_set(start, &first);
    EXPECT_EQ(pagemap_descriptor(start), &first);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES - 1), &first);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES), nullptr);
    EXPECT_EQ(pagemap_descriptor(start - 1), nullptr);
    pagemap_descriptor_set(start + SUPERSLAB_BYTES, &second);
    pagemap_descriptor_set(start, nullptr);
    EXPECT_EQ(pagemap_descriptor(start), nullptr);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES), &second);
    pagemap_descriptor_set(start + SUPERSLAB_BYTES, nullptr);
    EXPECT_EQ(os->release(start, 2 * SUPERSLAB_BYTES), 0);
}

// A mapping may begin at each page of a cell, and one in each cell. It is found from its start on, up to a superslab or the
// next mapping, and from no address before.
TEST(PageMap, HugeMappingsBeginAnywhere)
{
    struct alignas(META_LINE_BYTES) Descriptor {
        char bytes[META_LINE_BYTES];
    };
    static Descriptor below, above;
    char *start = static_cast<char *>(pagemap_reserve(2 * SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    uintptr_t found = 0;
    for (size_t first = 0; first < CELL_BYTES / PAGE_BYTES; first++) {
        char *at = start + first * PAGE_BYTES, *next = at + CELL_BYTES;
        EXPECT_TRUE(pagemap_huge_enter(at, 3 * PAGE_BYTES, &below));
        if (first > 0) EXPECT_FALSE(pagemap_huge_enter(start, first * PAGE_BYTES, &above)) << "the cell is taken";
        if (at + PAGE_BYTES < start + CELL_BYTES)
            EXPECT_FALSE(pagemap_huge_enter(at + PAGE_BYTES, SUPERSLAB_BYTES, &above));
        EXPECT_TRUE(pagemap_huge_enter(next, SUPERSLAB_BYTES, &above));
        EXPECT_EQ(pagemap_huge(start), &below);
        EXPECT_EQ(pagemap_huge(next), &above);
        EXPECT_EQ(pagemap_descriptor(at), nullptr) << "of no superslab";
        EXPECT_NE(pagemap_huge_below(at - 1, &found), &below);
        for (char *address : {at, at + 1, next - 1}) {
            EXPECT_EQ(pagemap_huge_below(address, &found), &below);
            EXPECT_EQ(found, (uintptr_t)at);
        }
        EXPECT_EQ(pagemap_huge_below(start + SUPERSLAB_BYTES, &found), &above);
        EXPECT_EQ(found, (uintptr_t)next);
        pagemap_descriptor_set(start + SUPERSLAB_BYTES, &below);
        EXPECT_EQ(pagemap_huge_below(start + SUPERSLAB_BYTES, &found), nullptr) << "a superslab is nearer";
        pagemap_descriptor_set(start + SUPERSLAB_BYTES, nullptr);
        pagemap_huge_leave(at, &above); // it has the place no more
        EXPECT_EQ(pagemap_huge(at), &below);
        EXPECT_TRUE(pagemap_huge_enter(start, CELL_BYTES, &above)) << "one that begins inside of it has moved away";
        pagemap_huge_leave(at, &below);
        EXPECT_EQ(pagemap_huge(at), &above);
        pagemap_huge_leave(start, &above);
        pagemap_huge_leave(next, &above);
        EXPECT_EQ(pagemap_huge(at), nullptr);
    }
    EXPECT_EQ(os->release(start, 2 * SUPERSLAB_BYTES), 0);
}

TEST(PageMap, ReserveRefusesWhatCannotBe)
{
    EXPECT_EQ(pagemap_reserve((size_t)1 << 60, SUPERSLAB_BYTES), nullptr);
    EXPECT_EQ(pagemap_reserve(SUPERSLAB_BYTES, (size_t)1 << 60), nullptr);
}

// Address space whose part of the map cannot be had is given back.
TEST(PageMap, WhatCannotBeEnteredIsGivenBack)
{
    static const os_ops *inner;
    static int reserved, refused;
    inner = os;
    reserved = refused = 0;
    os_ops refusing = *os;
    refusing.reserve = [](void *wanted, size_t bytes, size_t align_bytes) {
        void *start = inner->reserve(wanted, bytes, align_bytes);
        reserved += start != nullptr;
        return start;
    };
    refusing.release = [](void *start, size_t bytes) {
        reserved--;
        return inner->release(start, bytes);
    };
    refusing.commit = [](void *, size_t) {
        refused++;
        return ENOMEM;
    };
    refusing.map = [](void *at, size_t bytes, size_t align_bytes) { // it would serve instead
        return refused > 0 ? nullptr : inner->map(at, bytes, align_bytes);
    };
    // A quarter of a GiB each: earlier tests of this process may have entered some GiBs of the addresses below, not 250.
    const size_t bytes = (size_t)1 << 28;
    std::vector<void *> given;
    os = &refusing;
    while (refused == 0 && given.size() < 1000) given.push_back(pagemap_reserve(bytes, SUPERSLAB_BYTES));
    os = inner;
    ASSERT_EQ(refused, 1) << "the map has all of its pages";
    EXPECT_EQ(given.back(), nullptr);
    given.pop_back();
    EXPECT_EQ(reserved, (int)given.size());
    for (void *start : given) EXPECT_EQ(os->release(start, bytes), 0);
}

namespace {

// A system that takes no time: it gives each thread the addresses in its list, and notes what it should commit.
struct Quick {
    std::vector<void *> places;
    std::vector<std::pair<void *, size_t>> committed;
};
const os_ops *system_ops;
thread_local Quick *quick;

void *quick_reserve(void *wanted, size_t bytes, size_t align_bytes)
{
    if (wanted != nullptr) return system_ops->reserve(wanted, bytes, align_bytes);
    void *place = quick->places.back();
    quick->places.pop_back();
    return place;
}

int quick_commit(void *start, size_t bytes)
{
    quick->committed.emplace_back(start, bytes);
    return 0;
}

} // namespace

// Two threads enter neighbouring GiBs: all of them are known afterwards. Between the load and the store of one there are
// a few instructions, so the system must not take most of the time.
TEST(PageMap, ThreadsEnterNeighbouringGiBsAtOnce)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    const auto enter = [] {
        void *placed = os->reserve(nullptr, PAGE_BYTES, PAGE_BYTES);
        os->release(placed, PAGE_BYTES);
        const uintptr_t gib = (uintptr_t)1 << 30, high = (uintptr_t)placed / gib * gib;
        std::vector<Quick> threads(3); // the third is this one, which enters what needs descriptors from the system
        std::vector<void *> all;
        for (size_t i = 1; i <= 100; i++) {
            all.push_back(reinterpret_cast<void *>(high - i * gib));
            threads[i % 10 == 0 ? 2 : i % 2].places.push_back(all.back());
        }
        for (Quick &each : threads) each.committed.reserve(2 * all.size());
        os_ops ops = *os;
        ops.reserve = quick_reserve;
        ops.commit = quick_commit;
        system_ops = os;
        os = &ops;
        const auto enter_all = [&](size_t thread) {
            quick = &threads[thread];
            while (!quick->places.empty()) pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES);
        };
        enter_all(2);
        std::atomic<int> ready{0};
        test::in_threads(2, [&](int thread) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(thread, &one);
            sched_setaffinity(0, sizeof one, &one); // if it may; else they meet less often
            ready++;
            while (ready < 2) {}
            enter_all((size_t)thread);
        });
        os = system_ops;
        for (const Quick &each : threads)
            for (auto [start, bytes] : each.committed) ASSERT_EQ(os->commit(start, bytes), 0);
        for (void *start : all) {
            pagemap_tag_set(start, 1, CLASS_RUN);
            EXPECT_EQ(pagemap_tag_checked(start), (uint32_t)CLASS_RUN);
            pagemap_tag_set(start, 1, 0);
        }
    };
    for (int child = 0; child < 20; child++) ASSERT_TRUE(test::in_child(enter)); // a slice is entered once in a process
}

// Below what the kernel has placed at the start, part of the map is readable from the start. It can be entered in every
// GiB there, at the end of that part, and further below.
TEST(PageMap, EveryGiBIsEnteredWhereTheReadablePartEnds)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    ASSERT_TRUE(test::in_child([] {
        enum { GIBS = 160 }; // more than are readable: pagemap.c
        void *placed = os->reserve(nullptr, PAGE_BYTES, PAGE_BYTES);
        os->release(placed, PAGE_BYTES);
        const uintptr_t gib = (uintptr_t)1 << 30, high = (uintptr_t)placed / gib * gib;
        static uintptr_t place;
        system_ops = os;
        os_ops ops = *os;
        ops.reserve = [](void *wanted, size_t bytes, size_t align_bytes) {
            return wanted == nullptr ? reinterpret_cast<void *>(place)
                                     : system_ops->reserve(wanted, bytes, align_bytes);
        };
        os = &ops;
        for (uintptr_t i = 1; i <= GIBS && i * gib < high; i++) {
            place = high - i * gib;
            char *start = static_cast<char *>(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
            ASSERT_EQ(start, address(place)) << i;
            pagemap_tag_set(start, SUPERSLAB_PAGES, CLASS_RUN);
            EXPECT_EQ(pagemap_tag_checked(start + SUPERSLAB_BYTES - 1), (uint32_t)CLASS_RUN) << i;
            pagemap_tag_set(start, SUPERSLAB_PAGES, 0);
        }
        os = system_ops;
    }));
}

// A part of the map for which there was no memory once is entered later.
TEST(PageMap, WhatWasRefusedIsEnteredLater)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    ASSERT_TRUE(test::in_child([] {
        enum { GIBS_BELOW = 300 }; // more than are readable from the start
        void *placed = os->reserve(nullptr, PAGE_BYTES, PAGE_BYTES);
        os->release(placed, PAGE_BYTES);
        const uintptr_t gib = (uintptr_t)1 << 30;
        static uintptr_t place;
        static int refusals;
        place = ((uintptr_t)placed / gib - GIBS_BELOW) * gib;
        refusals = 1;
        system_ops = os;
        os_ops ops = *os;
        ops.reserve = [](void *wanted, size_t bytes, size_t align_bytes) {
            return wanted == nullptr ? reinterpret_cast<void *>(place)
                                     : system_ops->reserve(wanted, bytes, align_bytes);
        };
        ops.commit = [](void *start, size_t bytes) {
            return refusals-- > 0 ? ENOMEM : system_ops->commit(start, bytes);
        };
        ops.map = [](void *at, size_t bytes, size_t align_bytes) { // it would serve instead
            return refusals == 0 ? nullptr : system_ops->map(at, bytes, align_bytes);
        };
        ops.release = [](void *, size_t) { return 0; };
        os = &ops;
        EXPECT_EQ(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES), nullptr);
        EXPECT_EQ(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES), address(place));
        os = system_ops;
    }));
}

namespace {

// Stops a thread at the slice that it enters, before it is mapped or afterwards.
struct Stop {
    static inline thread_local bool is_due;
    static inline bool maps_first, is_foreign;
    static inline std::atomic<int> stage;
    static inline uintptr_t place;

    static void wait()
    {
        for (stage = 1; stage < 2;) std::this_thread::yield();
    }
    static void *reserve(void *wanted, size_t bytes, size_t align_bytes)
    {
        if (wanted == nullptr) return reinterpret_cast<void *>(place);
        if (is_foreign) return nullptr;
        const bool waits = std::exchange(is_due, false);
        if (waits && !maps_first) wait();
        void *slice = system_ops->reserve(wanted, bytes, align_bytes);
        if (waits && maps_first) wait();
        return slice;
    }
    static bool enters(uintptr_t at)
    {
        place = at;
        return pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES) == address(at);
    }
};

} // namespace

// A thread that the fork has caught may have mapped the slice that the child wants, or not yet. The child may want others
// first, and leaves alone what is not ours at their places.
TEST(PageMap, AChildEntersTheGiBThatAnotherThreadWasEntering)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    hak_free(hak_malloc(16)); // the heap looks after its locks in a child
    constexpr uintptr_t FAR = (uintptr_t)1 << 38; // no two such addresses have a slice in common
    uintptr_t next = (uintptr_t)1 << 43; // of GiBs that are not readable at the start
    system_ops = os;
    os_ops ops = *os;
    ops.reserve = Stop::reserve;
    os = &ops;
    for (bool maps_first : {false, true}) {
        Stop::maps_first = maps_first;
        Stop::stage = 0;
        Stop::place = next;
        std::thread caught([] {
            Stop::is_due = true;
            pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES);
        });
        while (Stop::stage < 1) std::this_thread::yield();
        EXPECT_TRUE(test::in_child([next] {
            Stop::is_foreign = true;
            EXPECT_FALSE(Stop::enters(next + FAR));
            Stop::is_foreign = false;
            EXPECT_TRUE(Stop::enters(next + FAR)) << "what others had there is gone";
            EXPECT_TRUE(Stop::enters(next));
        })) << maps_first;
        Stop::stage = 2;
        caught.join();
        next += 2 * FAR;
    }
    os = system_ops;
}

// A slice that others had when it was wanted is not one that the fork has caught.
TEST(PageMap, AChildLeavesAloneAGiBThatWasRefused)
{
    if (!SPARSE_MAP || pagemap_is_window()) GTEST_SKIP() << "it is reserved whole";
    hak_free(hak_malloc(16)); // the heap looks after its locks in a child
    constexpr uintptr_t MAPPED = (uintptr_t)1 << 44, REFUSED = MAPPED + ((uintptr_t)1 << 38);
    static std::atomic<int> commits;
    commits = 0;
    system_ops = os;
    os_ops ops = *os;
    Stop::stage = 0;
    Stop::maps_first = false;
    ops.reserve = Stop::reserve;
    ops.commit = [](void *start, size_t bytes) {
        const int commit = commits++;
        if (commit == 0) return ENOMEM;
        if (commit == 1) Stop::wait();
        return system_ops->commit(start, bytes);
    };
    ops.map = [](void *at, size_t bytes, size_t align_bytes) { // it would serve instead
        return commits == 1 ? nullptr : system_ops->map(at, bytes, align_bytes);
    };
    ops.release = [](void *, size_t) { return 0; };
    os = &ops;
    EXPECT_FALSE(Stop::enters(MAPPED));
    Stop::is_foreign = true;
    EXPECT_FALSE(Stop::enters(REFUSED));
    Stop::is_foreign = false;
    std::thread caught(
        [&] { EXPECT_TRUE(Stop::enters(MAPPED)); }); // in a slice that is mapped and cannot be written yet
    while (Stop::stage < 1) std::this_thread::yield();
    EXPECT_TRUE(test::in_child([&] {
        Stop::is_foreign = true;
        const int before = commits;
        EXPECT_FALSE(Stop::enters(REFUSED));
        EXPECT_EQ(commits, before) << "others have it";
    }));
    Stop::stage = 2;
    caught.join();
    os = system_ops;
}

TEST(PageMap, WhatTheHeapEnters)
{
    char *small = static_cast<char *>(hak_malloc(100));
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(pagemap_tag(small) & TAG_CLASS_MASK, sizeclass_of(100));
    EXPECT_NE(pagemap_tag(small) >> TAG_OWNER_SHIFT, 0u);
    EXPECT_NE(pagemap_descriptor(small), nullptr);
    hak_free(small);

    char *run = static_cast<char *>(hak_malloc(3 * PAGE_BYTES));
    ASSERT_NE(run, nullptr);
    EXPECT_EQ(pagemap_tag(run), (uint32_t)CLASS_RUN);
    EXPECT_EQ(pagemap_tag(run + PAGE_BYTES), 0u) << "the first page only";
    hak_free(run);
    EXPECT_EQ(pagemap_tag(run), 0u);

    char *huge = static_cast<char *>(hak_malloc(3 * SUPERSLAB_BYTES));
    ASSERT_NE(huge, nullptr);
    EXPECT_EQ(pagemap_tag(huge), (uint32_t)CLASS_HUGE);
    EXPECT_EQ(pagemap_tag(huge + PAGE_BYTES), 0u);
    EXPECT_NE(pagemap_huge(huge), nullptr);
    EXPECT_EQ(pagemap_descriptor(huge), nullptr);
    hak_free(huge);
    EXPECT_EQ(pagemap_tag(huge), 0u);
    EXPECT_NE(pagemap_huge(huge), nullptr) << "it is cached";
    hak_purge();
    EXPECT_EQ(pagemap_huge(huge), nullptr);
}
