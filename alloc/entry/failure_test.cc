// failure_test.cc: a malloc that fails is cheap. It takes nothing back for a size that cannot be had, and at a limit a program
// that frees blocks at each failure pays little for them. Each test sets its limit in a child, as it is the process's.
#include "heap/heap_test_support.h"

extern "C" {
#include "os/os_fault.h"
#include "superslab/limit.h"
#include "superslab/purge.h"
}

namespace {

using test::MIB;

class Failure : public test::HeapTest {};

// What a malloc that fails costs and takes back: calls to the system, and what was cached.
struct Failed {
    uint64_t calls;
    hak_stats before, after;
};

Failed failing(size_t size)
{
    Failed failure;
    hak_stats_get(&failure.before);
    os_fault_install(0, false);
    errno = 0;
    EXPECT_EQ(hak_malloc(size), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM);
    failure.calls = os_fault_remove();
    hak_stats_get(&failure.after);
    return failure;
}

} // namespace

// A size that cannot be had in any case is refused at once, whatever the heap has cached: nothing of it goes back.
TEST_F(Failure, ASizeThatCannotBeHadTakesNothingBack)
{
    SKIP_UNDER_SANITIZER("it ends the process for such sizes");
    EXPECT_TRUE(test::in_child([] {
        for (size_t count : {100u, 800u, 6400u}) {
            std::vector<void *> blocks;
            for (size_t i = 0; i < count; i++) blocks.push_back(hak_malloc(i % 50 == 0 ? 70000 : 1000));
            blocks.push_back(hak_malloc(3 * MIB));
            for (void *block : blocks) hak_free(block);
            for (size_t size :
                 {(size_t)1 << 47, (size_t)1 << 50, (size_t)PTRDIFF_MAX - 100, (size_t)PTRDIFF_MAX + 1, SIZE_MAX}) {
                const Failed failure = failing(size);
                EXPECT_LE(failure.calls, 4u) << size << " beside " << count;
                EXPECT_EQ(failure.after.huge_cached_bytes, failure.before.huge_cached_bytes) << size;
                EXPECT_EQ(failure.after.small_cached_bytes, failure.before.small_cached_bytes) << size;
                EXPECT_EQ(failure.after.dirty_bytes, failure.before.dirty_bytes) << size;
            }
            hak_limit_set(limit_committed_bytes() + 4 * MIB);
            for (size_t size : {limit_get() + 1, 2 * limit_get()}) {
                const Failed failure = failing(size);
                EXPECT_LE(failure.calls, 4u) << size << " at a limit";
                EXPECT_EQ(failure.after.huge_cached_bytes, failure.before.huge_cached_bytes) << size;
                EXPECT_EQ(failure.after.small_cached_bytes, failure.before.small_cached_bytes) << size;
            }
            hak_limit_set(SIZE_MAX);
            hak_purge_all();
        }
    }));
}

// A malloc that is refused refills once, and one that asks the callback once more for each time. Without a free page that has
// memory it claims none.
TEST_F(Failure, NothingIsTriedTwice)
{
    EXPECT_TRUE(test::in_child([] {
        static unsigned claims, asked;
        const auto refills = [] {
            hak_figures figures;
            hak_figures_get(&figures, sizeof figures);
            return figures.refills;
        };
        const int calls = 100; // caches are emptied at every 1024th, and then there is one more
        for (size_t size : {16u, 1000u, 1152u, 5000u, 20000u, 32768u}) {
            std::vector<void *> blocks;
            for (int i = 0; i < 8; i++) blocks.push_back(hak_malloc(RUN_BYTES_MAX));
            for (void *block : blocks) hak_free(block);
            blocks.clear();
            hak_purge_all(); // leaves free pages without memory
            hak_limit_set(limit_committed_bytes() + 8 * MIB);
            while (void *block = hak_malloc(size)) blocks.push_back(block);
            while (void *block = hak_malloc(SMALL_BYTES_MAX + 1)) blocks.push_back(block);
            ASSERT_EQ(purge_dirty_pages(), 0u);
            claims = 0;
            if (VALIDATE)
                hak_sync_point_hook = [](const char *step) { claims += strcmp(step, "superslab_claim") == 0; };
            auto before = refills();
            for (int i = 0; i < calls; i++) EXPECT_EQ(hak_malloc(size), nullptr);
            EXPECT_LE(refills() - before, calls + 1u) << size;
            hak_limit_callback([](size_t, void *) { return ++asked % 4 != 0; }, nullptr);
            before = refills();
            for (int i = 0; i < calls; i++) EXPECT_EQ(hak_malloc(size), nullptr);
            EXPECT_LE(refills() - before, 4u * calls + 1) << size << ": the callback helps in vain, three times";
            if (VALIDATE) {
                hak_sync_point_hook = nullptr;
                EXPECT_EQ(claims, 0u) << size;
            }
            hak_limit_callback(nullptr, nullptr);
            hak_limit_set(SIZE_MAX);
            for (void *block : blocks) hak_free(block);
        }
    }));
}

// At the limit a program frees its oldest blocks at each NULL. A failure costs no call to the system but seldom, and what
// the program can have stays near the limit, whatever the heap's size.
TEST_F(Failure, AProgramThatFreesAtEachFailurePaysLittle)
{
    SKIP_UNDER_SANITIZER("it is slow");
    EXPECT_TRUE(test::in_child([] {
        for (size_t limit_mib : {8u, 64u}) {
            for (size_t size_max : {500u, 2000u, 20000u, 100000u}) {
                hak_purge_all();
                const size_t base = limit_committed_bytes();
                hak_limit_set(base + limit_mib * MIB);
                test::Rng rng(size_max);
                std::vector<std::pair<void *, size_t>> held;
                size_t oldest = 0, bytes = 0, inserts = 0, sum = 0;
                const auto evict = [&] {
                    hak_free(held[oldest].first);
                    bytes -= held[oldest++].second;
                };
                const auto insert = [&] {
                    const size_t size = rng.between(16, size_max);
                    void *block;
                    bool failed = false;
                    while ((block = hak_malloc(size)) == nullptr) failed = true, evict();
                    held.emplace_back(block, size);
                    bytes += size;
                    return failed;
                };
                while (!insert()) {}
                const size_t many = 2 * held.size();
                for (inserts = 0; inserts < many / 2; inserts++) insert(); // the caches have what they will
                os_fault_install(0, false);
                for (inserts = 0; inserts < many; inserts++) {
                    insert();
                    sum += bytes / 1024;
                }
                const uint64_t calls = os_fault_remove();
                EXPECT_LE(calls, inserts / 2 + 100) << limit_mib << " MiB, up to " << size_max << " bytes";
                const size_t percent = 100 * (sum / inserts) / (limit_mib * 1024);
                EXPECT_GE(percent, size_max > 2000 ? 25u : 60u) << limit_mib << " MiB, up to " << size_max << " bytes";
                EXPECT_LE(limit_committed_bytes(), limit_get());
                printf("%zu MiB, up to %zu: %zu inserts, %llu calls, %zu%% in use\n", limit_mib, size_max, inserts,
                       (unsigned long long)calls, percent);
                while (oldest < held.size()) evict();
                hak_limit_set(SIZE_MAX);
            }
        }
    }));
}

// Beyond the soft limit a loop over a run purges nothing, and no more than a few free pages keep memory.
TEST_F(Failure, BeyondTheSoftOneALoopPurgesNothing)
{
    EXPECT_TRUE(test::in_child([] {
        for (size_t beside : {8u, 64u}) {
            std::vector<void *> runs(beside);
            for (void *&run : runs) run = hak_malloc(MIB);
            hak_limit_soft_set(1);
            for (size_t size : {(size_t)SMALL_BYTES_MAX + 1, (size_t)100000, MIB, (size_t)RUN_BYTES_MAX}) {
                hak_free(hak_malloc(size));
                os_fault_install(0, false);
                for (int i = 0; i < 200; i++) hak_free(hak_malloc(size));
                EXPECT_LE(os_fault_remove(), 2u) << size << ": a round of the tick may come";
                EXPECT_LE(purge_dirty_pages(), (size_t)SOFT_DIRTY_PAGES_MAX);
            }
            for (void *run : runs) hak_free(run);
            EXPECT_LE(purge_dirty_pages(), (size_t)SOFT_DIRTY_PAGES_MAX);
            hak_limit_soft_set(SIZE_MAX);
            hak_purge_all();
        }
    }));
}
