// fresh_test.cc: the first use of the heap, each time in a child of a process that has not used it: the page map before
// start, the address window instead of the flat map, a system that refuses its first call, and a process without a free
// thread key. More than 400 lines: each test needs such a process, and all share the child that makes one.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits.h>

extern "C" {
#include "cache/thread.h"
#include "heap/huge.h"
#include "os/os.h"
#include "os/os_fault.h"
#include "slab/owner.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
}

namespace {

void use_everything()
{
    for (int round = 0; round < 2; round++) {
        std::vector<std::pair<void *, size_t>> blocks;
        for (size_t size : test::all_kinds_of_sizes()) {
            void *block = hak_malloc(size);
            ASSERT_NE(block, nullptr) << size;
            test::pattern_fill(block, size, size, size < 200000 ? 64 : 1 << 16);
            blocks.emplace_back(block, size);
        }
        for (size_t align = 32; align <= 16 << 20; align *= 8) {
            void *block = hak_aligned_alloc(align, 100);
            ASSERT_TRUE(test::is_aligned(block, align));
            hak_free(block);
        }
        for (auto [block, size] : blocks) {
            ASSERT_TRUE(test::pattern_holds(block, size, size, size < 200000 ? 64 : 1 << 16));
            block = hak_realloc(block, size + size / 2 + 1);
            ASSERT_NE(block, nullptr);
            if (size > 0) ASSERT_EQ(*static_cast<unsigned char *>(block), test::pattern_byte(size, 0));
            hak_free(block);
        }
    }
}

void use_everything_in_threads()
{
    use_everything();
    test::in_threads(3, [](int) { use_everything(); });
    test::expect_at_rest();
}

} // namespace

TEST(Fresh, BeforeTheFirstUse)
{
    EXPECT_TRUE(test::in_child([] {
        int on_stack = 0;
        EXPECT_EQ(pagemap_tag(nullptr), 0u);
        EXPECT_EQ(pagemap_tag_checked(nullptr), 0u);
        EXPECT_EQ(pagemap_tag_checked(&on_stack), 0u);
        EXPECT_EQ(pagemap_tag_checked((void *)UINTPTR_MAX), 0u);
        EXPECT_EQ(pagemap_descriptor(&on_stack), nullptr);
        EXPECT_EQ(hak_malloc_usable_size(nullptr), 0u);
        for (int i = 0; i < 70000; i++) hak_free(nullptr);
        hak_stats stats;
        hak_stats_get(&stats);
        EXPECT_EQ(stats.reserved_bytes, 0u);
        EXPECT_EQ(stats.heap_count, 0u);
        hak_inspect_report report;
        EXPECT_TRUE(hak_inspect(&report));
        EXPECT_EQ(tcache_self()->state, THREAD_NEW);
        use_everything();
        EXPECT_EQ(pagemap_tag(nullptr), 0u);
        EXPECT_EQ(tcache_self()->state, THREAD_LIVE);
    }));
}

TEST(Fresh, EveryFunctionMayBeTheFirst)
{
    const std::vector<std::function<void()>> firsts = {
        [] { hak_free(hak_malloc(1)); },
        [] { hak_free(hak_malloc(0)); },
        [] { hak_free(hak_malloc(100000)); },
        [] { hak_free(hak_malloc(10 << 20)); },
        [] { hak_free(hak_calloc(3, 3)); },
        [] { hak_free(hak_calloc(1 << 20, 5)); },
        [] { hak_free(hak_realloc(nullptr, 10)); },
        [] { hak_free(hak_aligned_alloc(1 << 20, 10)); },
        [] { hak_free(nullptr); },
        [] { EXPECT_EQ(hak_purge(), 0u); },
        [] { EXPECT_EQ(hak_malloc(SIZE_MAX), nullptr); },
        [] { EXPECT_TRUE(test::in_child([] { use_everything(); })); },
        [] { test::in_thread([] { hak_free(hak_malloc(1)); }); },
    };
    for (const auto &first : firsts)
        EXPECT_TRUE(test::in_child([&] {
            first();
            use_everything();
            test::expect_at_rest();
        }));
}

TEST(Fresh, ThreadsRaceToStart)
{
    for (int i = 0; i < test::rounds(20); i++)
        EXPECT_TRUE(test::in_child([] {
            std::atomic<int> ready = 0;
            test::in_threads(4, [&](int thread) {
                ready++;
                while (ready < 4) std::this_thread::yield();
                void *block = hak_malloc(thread % 2 == 0 ? 10 : 100000);
                EXPECT_NE(block, nullptr);
                hak_free(block);
            });
            test::expect_at_rest();
        }));
}

TEST(Fresh, TheFirstCallsToTheSystemFail)
{
    SKIP_UNDER_SANITIZER("its own memory stands where the window is, which is taken then");
    for (bool for_ever : {false, true}) {
        uint64_t nth = 1;
        bool reached = true;
        for (; reached && nth < 100; nth++) {
            int result[2];
            ASSERT_EQ(pipe(result), 0);
            EXPECT_TRUE(test::in_child([&] {
                os_fault_install(nth, for_ever);
                for (size_t size : {10u, 100000u, 10u << 20}) {
                    errno = 4711;
                    void *block = hak_malloc(size);
                    if (block == nullptr) {
                        EXPECT_EQ(errno, ENOMEM);
                    } else {
                        EXPECT_EQ(errno, 4711);
                    }
                    hak_free(block);
                }
                test::in_thread([] { hak_free(hak_malloc(10)); });
                char hit = os_fault_failures() > 0;
                EXPECT_EQ(write(result[1], &hit, 1), 1);
                os_fault_remove();
                use_everything_in_threads();
            })) << "call "
                << nth;
            char hit = 0;
            ASSERT_EQ(read(result[0], &hit, 1), 1);
            reached = hit != 0;
            close(result[0]);
            close(result[1]);
        }
        printf("%llu first calls to the system, each failed\n", (unsigned long long)nth - 2);
        EXPECT_GT(nth, 6u);
    }
}

TEST(Fresh, TheMapIsMappedWhereItIsUsed)
{
    if (!SPARSE_MAP) GTEST_SKIP() << "it is reserved whole";
    EXPECT_TRUE(test::in_child([] {
        size_t before = test::address_space_bytes();
        void *block = hak_malloc(10);
        ASSERT_NE(block, nullptr);
        EXPECT_FALSE(pagemap_is_window());
        EXPECT_LT(test::address_space_bytes() - before, (size_t)32 << 20);
        const uintptr_t place_tib = (uintptr_t)(const void *)pagemap_tags >> 40;
        EXPECT_GE(place_tib, 36u)
            << "CLISP has 16 to 32 TiB, DPDK 16 and above, ZGC 4 to 32, Go's race detector 32 to 36";
        EXPECT_LT(place_tib, 48u) << "Go's race detector again";
        static int in_data;
        int on_stack = 0;
        void *of_libc = malloc(100);
        for (void *foreign : {(void *)&in_data, (void *)&on_stack, of_libc, (void *)0x123450}) {
            EXPECT_EQ(pagemap_tag(foreign), 0u);
            EXPECT_EQ(pagemap_descriptor(foreign), nullptr);
            if (!VALIDATE) hak_free(foreign);
        }
        free(of_libc);
        for (int bit = 30; bit < HAK_ADDRESS_BITS; bit++) { // mapped or not
            EXPECT_EQ(pagemap_tag_checked((void *)((uintptr_t)1 << bit)), 0u) << bit;
            EXPECT_EQ(pagemap_descriptor((void *)((uintptr_t)1 << bit)), nullptr) << bit;
        }
        hak_free(block);
        use_everything_in_threads();
    }));
}

TEST(Fresh, TheMapGrowsWithTheAddresses)
{
    if (!SPARSE_MAP) GTEST_SKIP() << "it is reserved whole";
    EXPECT_TRUE(test::in_child([] {
        char *first = static_cast<char *>(hak_malloc(100 << 20));
        ASSERT_NE(first, nullptr);
        // What the kernel places from now on lies ever further below, beyond what is readable from the start.
        std::vector<char *> blocks = {first};
        for (size_t i = 1; i <= 8; i++) {
            void *gap = mmap(nullptr, (size_t)100 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            ASSERT_NE(gap, MAP_FAILED);
            size_t before = test::address_space_bytes();
            char *huge = static_cast<char *>(hak_malloc(100 << 20));
            ASSERT_NE(huge, nullptr);
            EXPECT_GT((size_t)(first - huge), i * (100ull << 30)) << "else nothing is tested";
            EXPECT_LT(test::address_space_bytes(), before + ((size_t)110 << 20));
            EXPECT_EQ(pagemap_tag(huge), (uint32_t)CLASS_HUGE);
            EXPECT_EQ(hak_malloc_usable_size(huge), (size_t)100 << 20);
            blocks.push_back(huge);
        }
        for (char *block : blocks) hak_free(block);
        use_everything_in_threads();
    }));
}

// Eight threads at once need the same new slice.
TEST(Fresh, TheMapGrowsUnderThreads)
{
    if (!SPARSE_MAP) GTEST_SKIP() << "it is reserved whole";
    EXPECT_TRUE(test::in_child([] {
        void *first = hak_malloc(10);
        for (int i = 0; i < 20; i++) {
            void *gap = mmap(nullptr, (size_t)200 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            ASSERT_NE(gap, MAP_FAILED);
            test::in_threads(8, [](int thread) {
                size_t size = (size_t)(thread + 4) << 20;
                char *huge = static_cast<char *>(hak_malloc(size));
                ASSERT_NE(huge, nullptr);
                huge[0] = huge[size - 1] = 1;
                hak_free(huge);
            });
            hak_purge();
        }
        hak_free(first);
    }));
}

TEST(Fresh, TheWindowInPlaceOfTheFlatMap)
{
    SKIP_UNDER_SANITIZER("its own memory stands where the window is");
    for (uint32_t bits : {34u, 35u, 36u})
        EXPECT_TRUE(test::in_child([bits] {
            pagemap_test_window_bits = bits;
            void *block = hak_malloc(10);
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(pagemap_is_window());
            EXPECT_EQ((uintptr_t)block >> bits, 0u);
            int on_stack = 0;
            EXPECT_EQ(pagemap_tag_checked(&on_stack), 0u) << "beyond the window";
            EXPECT_EQ(pagemap_descriptor(&on_stack), nullptr);
            EXPECT_EQ(hak_malloc_usable_size(&on_stack), 0u);
            hak_free(block);
            use_everything_in_threads();
            EXPECT_EQ(hak_malloc((size_t)1 << bits), nullptr) << "more than the window";
            EXPECT_EQ(hak_aligned_alloc((size_t)1 << bits, 1), nullptr);
            EXPECT_EQ(pagemap_reserve(SUPERSLAB_BYTES, (size_t)1 << bits), nullptr);
            void *most = hak_malloc((size_t)3 << (bits - 2));
            if (bits == 34) EXPECT_EQ(most, nullptr) << "a quarter lies below the window";
            hak_free(most);
            use_everything_in_threads();
        }));
}

TEST(Fresh, AMapThatCannotBeReadIsGivenBack)
{
    SKIP_UNDER_SANITIZER("its own memory stands where the window is");
    EXPECT_TRUE(test::in_child([] {
        pagemap_test_window_bits = 36; // 4 MiB of tables
        const size_t before = test::address_space_bytes();
        os_fault_install(2, false);
        EXPECT_NE(pagemap_start(), 0);
        os_fault_remove();
        EXPECT_LT(test::address_space_bytes(), before + test::MIB);
        use_everything_in_threads();
        EXPECT_TRUE(pagemap_is_window());
    }));
}

TEST(Fresh, TheWindowsSearchEndsAtItsTopAndWithTheSystemsMemory)
{
    SKIP_UNDER_SANITIZER("its own memory stands where the window is");
    EXPECT_TRUE(test::in_child([] {
        const uintptr_t high = (uintptr_t)1 << 34;
        pagemap_test_window_bits = 34;
        hak_free(hak_malloc(10));
        ASSERT_TRUE(pagemap_is_window());
        auto next = [](size_t size) { return reinterpret_cast<uintptr_t>(pagemap_reserve(size, SUPERSLAB_BYTES)); };
        auto skip_to = [&](uintptr_t to) { // the search continues behind what it gave last
            for (uintptr_t at = 0; at != to;) {
                size_t size = at == 0 ? (size_t)SUPERSLAB_BYTES : std::min<size_t>(to - at, 64 << 20);
                uintptr_t start = next(size);
                ASSERT_NE(start, 0u);
                os->release(reinterpret_cast<void *>(start), size);
                at = start + size;
                ASSERT_LE(at, to);
            }
        };
        for (size_t left : {(size_t)SUPERSLAB_BYTES, 2 * (size_t)SUPERSLAB_BYTES}) {
            skip_to(high - left);
            EXPECT_EQ(next(left), high - left) << "the last place";
            os->release(reinterpret_cast<void *>(high - left), left);
            skip_to(high - left);
            uintptr_t start = next(left + SUPERSLAB_BYTES);
            EXPECT_NE(start, 0u);
            EXPECT_LT(start, high - left) << "one beyond";
        }
        skip_to(high / 2);
        os_fault_install(1, true);
        EXPECT_EQ(next(SUPERSLAB_BYTES), 0u);
        EXPECT_EQ(os_fault_remove(), 2u) << "one try there, and one anywhere";
        EXPECT_GT(next(SUPERSLAB_BYTES), high / 2) << "the next search continues behind the place that was refused";
        skip_to(high - 4 * SUPERSLAB_BYTES);
        void *last = mmap(reinterpret_cast<void *>(high - 4 * SUPERSLAB_BYTES), 4 * SUPERSLAB_BYTES, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(last), high - 4 * SUPERSLAB_BYTES);
        EXPECT_NE(next(SUPERSLAB_BYTES), 0u) << "the last places are taken, the first are free";
    }));
}

TEST(Fresh, TheFallbackIsTakenByItself)
{
    SKIP_UNDER_SANITIZER("its own memory stands where the window is");
    EXPECT_TRUE(test::in_child([] {
        os_fault_install(1, false); // the flat map cannot be reserved
        void *block = hak_malloc(10);
        os_fault_remove();
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(pagemap_is_window());
        hak_free(block);
        use_everything_in_threads();
    }));
    EXPECT_TRUE(test::in_child([] {
        os_fault_install(2, false); // it is reserved, but cannot be committed
        void *block = hak_malloc(10);
        os_fault_remove();
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(pagemap_is_window());
        hak_free(block);
        use_everything_in_threads();
    }));
}

TEST(Fresh, AddressSpaceOfAGibibyte)
{
    SKIP_UNDER_SANITIZER("it needs terabytes of address space itself");
    EXPECT_TRUE(test::in_child([] {
        test::limit_address_space((size_t)1 << 30);
        use_everything_in_threads();
        EXPECT_EQ(pagemap_is_window(), !SPARSE_MAP);
        for (size_t size : {1000u, 100000u, 5u << 20}) {
            std::vector<void *> blocks;
            blocks.reserve(2 << 20);
            errno = 0;
            size_t total = 0;
            while (void *block = hak_malloc(size)) {
                blocks.push_back(block);
                total += size;
                ASSERT_LT(total, (size_t)1 << 30);
            }
            EXPECT_EQ(errno, ENOMEM);
            EXPECT_GT(total, (size_t)500 << 20) << "of blocks of " << size;
            EXPECT_EQ(hak_malloc(size), nullptr);
            // After one free, one more malloc succeeds.
            hak_free(blocks.back());
            blocks.back() = hak_malloc(size);
            EXPECT_NE(blocks.back(), nullptr);
            for (void *block : blocks) hak_free(block);
            test::expect_at_rest();
            std::vector<void *>().swap(blocks);
            use_everything_in_threads();
        }
    }));
}

TEST(Fresh, NoThreadKeyIsLeft)
{
    EXPECT_TRUE(test::in_child([] {
        test::in_thread([] {}); // a C++ library may take a key for its threads
        pthread_key_t key;
        int made = 0;
        while (pthread_key_create(&key, nullptr) == 0) made++;
        ASSERT_GT(made, 100);
        void *block = hak_malloc(10);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(tcache_self()->state, THREAD_ENDED) << "nobody would tell of its end";
        EXPECT_EQ(tcache_self()->heap, nullptr) << "so it only borrows";
        hak_free(block);
        use_everything();
        for (int i = 0; i < 200; i++) test::in_thread([] { hak_free(hak_malloc(100)); });
        use_everything_in_threads();
        EXPECT_LE(owner_count(), 4u);
        EXPECT_EQ(owner_orphan_count(), owner_count()) << "no thread holds a heap";
    }));
}

TEST(Fresh, AKeyBeyondTheFirstBlockOfKeys)
{
    // libc allocates when a thread sets a key beyond the first 32, as ours is here.
    EXPECT_TRUE(test::in_child([] {
        pthread_key_t key;
        for (int i = 0; i < 100; i++) ASSERT_EQ(pthread_key_create(&key, nullptr), 0);
        use_everything_in_threads();
        EXPECT_EQ(tcache_self()->state, THREAD_LIVE);
        for (int i = 0; i < 100; i++) test::in_thread([] { hak_free(hak_malloc(100)); });
        EXPECT_LE(owner_count(), 4u);
    }));
}

TEST(Fresh, ManyAtforkHandlers)
{
    // libc has room for 48 handlers without allocating.
    EXPECT_TRUE(test::in_child([] {
        for (int i = 0; i < 100; i++)
            ASSERT_EQ(pthread_atfork([] { hak_free(hak_malloc(1)); }, [] { hak_free(hak_malloc(1)); },
                                     [] { hak_free(hak_malloc(1)); }),
                      0);
        use_everything();
        EXPECT_TRUE(test::in_child([] { use_everything(); }));
    }));
}
