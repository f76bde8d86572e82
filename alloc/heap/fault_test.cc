// fault_test.cc: makes the 1st, 2nd, ... nth call to the system fail, once or for ever, until a whole workload runs
// without a failure. A call that fails must return NULL with ENOMEM, blocks must keep their content, and when the
// system works again no memory may have been lost.
#include "heap/heap_test_support.h"

extern "C" {
#include "heap/huge_cache.h"
#include "os/os_fault.h"
}

namespace {

struct Held {
    void *block;
    size_t size;
    uint64_t stamp;
    size_t step;
};

// Checks every byte of small blocks, and only some of longer ones, to save time.
size_t step_of(size_t size)
{
    return std::max<size_t>(512, size / 16 & ~(size_t)511);
}

class Workload {
  public:
    // Everything that calls the system: slabs of every kind, many runs, huge blocks, alignment, realloc both ways,
    // threads, purges. Keeps every block that it gets.
    void run()
    {
        for (size_t size : {16u, 100u, 1000u, 3000u, 9000u, 20000u, 32768u})
            for (int i = 0; i < 20; i++) keep(hak_malloc(size), size);
        for (size_t pages : {32, 32, 32, 32, 32, 32, 32, 32, 20, 20, 9, 1, 32, 32, 32, 32})
            keep(hak_malloc(pages * PAGE_BYTES), pages * PAGE_BYTES);
        for (size_t mib : {3, 5, 40}) keep(hak_malloc(mib << 20), mib << 20);
        for (size_t align : {4096u, 65536u, 1u << 20, 2u << 20, 4u << 20, 16u << 20}) {
            keep(hak_aligned_alloc(align, 70000), 70000);
            void *block = nullptr;
            errno = 0;
            int error = hak_posix_memalign(&block, align, 3000);
            EXPECT_TRUE(error == 0 || error == ENOMEM);
            EXPECT_EQ(errno, 0);
            EXPECT_EQ(error == 0, block != nullptr);
            if (error == 0) take(block, 3000);
            else failed_calls++;
        }
        keep_zero(hak_calloc(100, 1000), 100000);
        keep_zero(hak_calloc(6 << 20, 1), 6 << 20);
        test::in_thread([this] {
            keep(hak_malloc(50), 50);
            for (int i = 0; i < 6; i++) keep(hak_malloc(RUN_BYTES_MAX), RUN_BYTES_MAX);
        });
        for (size_t i = 0; i < held.size(); i += 3) {
            resize(held[i], held[i].size + held[i].size / 2);
            resize(held[i], held[i].size / 3 + 1);
        }
        // Another thread frees half of it, which purges and releases memory.
        test::in_thread([this] {
            for (size_t i = held.size(); i-- > 0;) {
                if (i % 2 == 0) continue;
                check(held[i]);
                errno = 4711;
                hak_free(held[i].block);
                EXPECT_EQ(errno, 4711);
                held.erase(held.begin() + (ptrdiff_t)i);
            }
        });
        hak_purge();
        for (int i = 0; i < 6; i++) keep(hak_malloc(RUN_BYTES_MAX), RUN_BYTES_MAX);
    }

    void free_all()
    {
        for (const Held &each : held) {
            check(each);
            hak_free(each.block);
        }
        held.clear();
    }

    void check(const Held &each)
    {
        ASSERT_TRUE(test::pattern_holds(each.block, each.size, each.stamp, each.step)) << each.size;
    }
    void check_all()
    {
        for (const Held &each : held) check(each);
    }

    size_t failed_calls = 0;

  private:
    void take(void *block, size_t size)
    {
        held.push_back({block, size, ++stamp_, step_of(size)});
        ASSERT_GE(hak_malloc_usable_size(block), size);
        fill(held.back());
        errno = 0;
    }
    static void fill(const Held &each)
    {
        auto *bytes = static_cast<unsigned char *>(each.block);
        for (size_t i = 0; i < each.size; i += each.step) bytes[i] = test::pattern_byte(each.stamp, i);
    }
    void keep(void *block, size_t size)
    {
        if (block != nullptr) {
            take(block, size);
            return;
        }
        EXPECT_EQ(errno, ENOMEM);
        errno = 0;
        failed_calls++;
    }
    void keep_zero(void *block, size_t size)
    {
        if (block != nullptr) EXPECT_TRUE(test::is_zero(block, size, size < 200000 ? 256 : 1 << 18));
        keep(block, size);
    }
    void resize(Held &each, size_t size)
    {
        errno = 0;
        void *block = hak_realloc(each.block, size);
        if (block == nullptr) {
            EXPECT_EQ(errno, ENOMEM);
            errno = 0;
            failed_calls++;
            check(each);
            return;
        }
        EXPECT_EQ(errno, 0);
        each.block = block;
        each.size = std::min(each.size, size);
        check(each);
        each.size = size;
        each.step = step_of(size);
        fill(each);
    }

    std::vector<Held> held;
    uint64_t stamp_ = 0;
};

class Fault : public test::HeapTest {
  protected:
    // Returns whether the workload reached its nth call.
    bool round(uint64_t nth, bool for_ever)
    {
        // No superslab or mapping is left from the last round.
        Workload work;
        errno = 0;
        os_fault_install(nth, for_ever);
        work.run();
        uint64_t failures = os_fault_failures();
        os_fault_remove();
        work.check_all();

        // The system works again: every size succeeds.
        for (size_t size : test::all_kinds_of_sizes()) {
            void *block = hak_malloc(size);
            EXPECT_NE(block, nullptr) << size;
            hak_free(block);
        }
        work.free_all();
        test::expect_at_rest();
        failed_calls += work.failed_calls;
        injected += failures;
        return failures > 0;
    }

    void all_rounds(bool for_ever)
    {
        uint64_t nth = 1;
        while (round(nth, for_ever)) {
            if (HasFailure()) FAIL() << "with call " << nth << " failing";
            nth++;
            ASSERT_LT(nth, 2000u);
        }
        printf("%llu calls to the system, each failed %s: %llu failures, %zu calls refused\n",
               (unsigned long long)nth - 1, for_ever ? "with all behind it" : "once", (unsigned long long)injected,
               failed_calls);
        EXPECT_GT(nth, 30u);
        /* A call that failed once is made again after all that is kept for later was given up. */
        if (for_ever) EXPECT_GT(failed_calls, 5u);
        else EXPECT_EQ(failed_calls, 0u);
    }

    size_t failed_calls = 0;
    uint64_t injected = 0;
};

} // namespace

TEST_F(Fault, EachCallOnce)
{
    all_rounds(false);
}
TEST_F(Fault, EachCallAndAllBehindIt)
{
    all_rounds(true);
}

TEST_F(Fault, SmallBlocksWithoutASystemUseWhatIsFree)
{
    // Fills all memory; then the memory of one class, once freed, must serve another.
    std::vector<void *> runs;
    for (size_t size : {(size_t)48, (size_t)RUN_BYTES_MAX}) hak_free(hak_malloc(size)); // this may be the first test
    os_fault_install(1, true);
    while (void *run = hak_malloc(RUN_BYTES_MAX)) runs.push_back(run);
    while (void *run = hak_malloc(PAGE_BYTES)) runs.push_back(run);
    std::vector<void *> blocks;
    while (void *block = hak_malloc(48)) blocks.push_back(block);
    EXPECT_EQ(hak_malloc(2000), nullptr);
    for (void *block : blocks) hak_free(block);
    if (!runs.empty()) {
        hak_free(runs.back());
        runs.pop_back();
    }
    void *other = hak_malloc(2000);
    EXPECT_NE(other, nullptr);
    hak_free(other);
    for (void *run : runs) hak_free(run);
    os_fault_remove();
}

TEST_F(Fault, SmallBlocksWhenTheSystemRefusesGiveUpTheHugeCache)
{
    // As under RLIMIT_AS: malloc must not fail in a program that has just freed 32 MiB.
    std::vector<void *> runs;
    os_fault_install(1, true);
    while (void *run = hak_malloc(RUN_BYTES_MAX)) runs.push_back(run);
    while (void *run = hak_malloc(PAGE_BYTES)) runs.push_back(run);
    os_fault_remove();
    hak_free(hak_malloc(32 << 20)); // cached now
    for (size_t size : {100u, 100000u}) {
        os_fault_install(1, false); // the new superslab is refused once
        void *block = hak_malloc(size);
        os_fault_remove();
        EXPECT_NE(block, nullptr) << size << ": 32 MiB are cached, and it is refused";
        hak_free(block);
        hak_free(hak_malloc(32 << 20));
        while (true) { // full again
            os_fault_install(1, true);
            void *run = hak_malloc(PAGE_BYTES);
            os_fault_remove();
            if (run == nullptr) break;
            runs.push_back(run);
        }
    }
    for (void *run : runs) hak_free(run);
}

// Whatever is tried instead of a call that was refused: the block lies as asked, and has all of its bytes. Also if loops have
// taught the heap to map more for a huge block than it needs.
TEST_F(Fault, ABlockIsAlignedWhicheverCallIsRefused)
{
    uint64_t refused = 0, served = 0;
    for (const size_t learned : {(size_t)0, 256 * test::MIB})
        for (size_t align = 16; align <= 64 * test::MIB; align *= 2)
            for (const size_t size :
                 {(size_t)1, (size_t)SMALL_BYTES_MAX + 1, (size_t)RUN_BYTES_MAX + 1, 5 * test::MIB + 1})
                for (uint64_t nth = 1, failed = 1; failed > 0; nth++) {
                    huge_keep_bytes = learned;
                    huge_keep_live_bytes = 0;
                    os_fault_install(nth, false);
                    auto *block = static_cast<char *>(hak_aligned_alloc(align, size));
                    failed = os_fault_failures();
                    os_fault_remove();
                    ASSERT_NE(block, nullptr) << size << ", " << align << ", call " << nth;
                    ASSERT_TRUE(test::is_aligned(block, align)) << size << ", " << align << ", call " << nth;
                    ASSERT_GE(hak_malloc_usable_size(block), size);
                    block[0] = block[size - 1] = 1;
                    hak_free(block);
                    hak_purge();
                    refused += failed;
                    served++;
                }
    printf("%llu blocks, %llu calls refused\n", (unsigned long long)served, (unsigned long long)refused);
    EXPECT_GT(refused, 100u);
}
