// credits_test.cc: what bins may keep, and what they buy from the purse.
#include "heap/heap_test_support.h"

#include <barrier>
#include <semaphore>
#include <thread>

extern "C" {
#include "cache/credits.h"
#include "cache/owed.h"
#include "cache/thread.h"
#include "superslab/limit.h"
#include "superslab/purge.h"
#include "superslab/purse.h"
}

namespace {

class Credits : public test::HeapTest {};

// Allocates blocks, and frees all of them in any order.
void burst(test::Rng &rng, size_t count, size_t size_max = 1024)
{
    std::vector<void *> blocks(count);
    for (void *&block : blocks) block = hak_malloc(1 + rng.below(size_max));
    if (rng.below(2) == 0) rng.shuffle(blocks);
    for (void *block : blocks) hak_free(block);
}

// Law 10, and the bound. No thread may be in the allocator. Returns what all have bought.
size_t expect_accounts(const char *when)
{
    hak_inspect_report report;
    EXPECT_TRUE(hak_inspect(&report)) << when << ": " << report.broken_law;
    // The share was of the pages in use when a heap bought: at most of the peak.
    const size_t most = std::max<size_t>(PURSE_BYTES, limit_committed_peak_bytes() >> PURSE_SHARE_LOG2);
    EXPECT_LE(purse_bought_bytes(), most + owner_count() * PURSE_HEAP_LEAST_BYTES) << when;
    return purse_bought_bytes();
}

size_t used_bytes_of_others()
{
    size_t bytes = 0;
    for (uint32_t id = 1; id <= owner_count(); id++)
        if (owner_with_id(id) != &tcache_self()->heap->owner) bytes += owner_used_bytes(owner_with_id(id));
    return bytes;
}

// Other threads have no live block, and no list is parked: what their heaps count as in use is in bins. That is at most what is
// bought, and what refills brought to their bins, for which nobody pays.
void expect_paid(size_t threads, const char *when)
{
    const size_t refilled_bytes = threads * (64 << 10);
    EXPECT_LE(used_bytes_of_others(), expect_accounts(when) + refilled_bytes) << threads << " threads, " << when;
}

} // namespace

TEST_F(Credits, ThePurseIsBoundedAndComesBack)
{
    hak_purge_all();
    EXPECT_EQ(expect_accounts("at first"), 0u);
    test::in_thread([] {
        test::Rng rng;
        for (int round = 0; round < 20; round++) burst(rng, 4000);
        EXPECT_GT(purse_bought_bytes(), 0u);
    });
    expect_accounts("after bursts");
    hak_purge_all();
    EXPECT_EQ(expect_accounts("after a purge"), 0u);
    size_t account = 0;
    EXPECT_TRUE(purse_buy(&account, PURSE_FIRST_BYTES, false));
    EXPECT_FALSE(purse_buy(&account, 1, false)) << "nothing was given back too early";
    EXPECT_TRUE(purse_buy(&account, purse_bytes_max() - PURSE_FIRST_BYTES, true));
    EXPECT_FALSE(purse_buy(&account, 1, true)) << "it is empty";
    size_t least = 0;
    EXPECT_TRUE(purse_buy(&least, PURSE_HEAP_LEAST_BYTES, false)) << "a heap has that much in any case";
    EXPECT_FALSE(purse_buy(&least, 1, true));
    purse_return(&least, 1);
    EXPECT_EQ(least, PURSE_HEAP_LEAST_BYTES - 1u);
    purse_return(&least, SIZE_MAX);
    purse_return(&account, SIZE_MAX);
    EXPECT_EQ(account + least + purse_bought_bytes(), 0u);
}

// A class that cannot pay takes at most half of its blocks in use, and in the end gives each block straight back.
TEST_F(Credits, WithoutMoneyAThreadThatFreesAllKeepsNothing)
{
    size_t account = 0;
    hak_purge_all();
    ASSERT_TRUE(purse_buy(&account, purse_bytes_max(), true));
    for (size_t size : {16, 64, 512, 1024, 5000, 20000}) {
        test::in_thread([&] {
            const uint32_t c = sizeclass_of(size);
            std::vector<void *> blocks(5000000 / (size + 1000));
            for (void *&block : blocks) block = hak_malloc(size);
            const owner *own = &tcache_self()->heap->owner;
            size_t live = blocks.size();
            for (void *block : blocks) {
                hak_free(block);
                live--;
                if (VALIDATE) continue; // blocks wait in the quarantine
                const size_t most =
                    std::max<size_t>(live + 8, (MAGAZINES_MAX + 1) * PURSE_HEAP_LEAST_BYTES / sizeclass_bytes(c));
                ASSERT_LE(owner_used_blocks(own, c) - live, most) << size << ", " << live << " live";
            }
            if (VALIDATE) hak_purge();
            EXPECT_LE(owner_used_bytes(own), (MAGAZINES_MAX + 1u) * PURSE_HEAP_LEAST_BYTES) << size;
        });
    }
    purse_return(&account, SIZE_MAX);
}

// Random programs of threads that work in bursts. While all sleep, after some have ended, in a forked child, and after a
// purge the accounts are right. What sleeping threads keep is what they have bought, with the lists that are parked.
TEST_F(Credits, SleepingThreadsKeepWhatTheyHaveBought)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    for (int count : {1, 2, 7, 40, 200}) {
        hak_purge_all();
        const uint64_t seed = test::Rng(count).next();
        std::barrier asleep(count + 1);
        std::vector<std::thread> threads, ending;
        for (int i = 0; i < count; i++) {
            const bool ends = i % 4 == 3;
            (ends ? ending : threads).emplace_back([&, i, ends] {
                test::Rng rng(seed + i);
                const size_t size_max = 64 << rng.below(6);
                const int bursts = 1 + (int)rng.below(5);
                for (int round = 0; round < bursts; round++) burst(rng, 1 + rng.below(100000 / count + 200), size_max);
                if (ends) return asleep.arrive_and_drop();
                asleep.arrive_and_wait();
                asleep.arrive_and_wait();
            });
        }
        asleep.arrive_and_wait();
        for (std::thread &thread : ending) thread.join();
        const size_t bought = expect_accounts("asleep"), cached = used_bytes_of_others();
        if (!VALIDATE)
            EXPECT_LE(cached, (MAGAZINES_MAX + 1) * (bought + count * PURSE_HEAP_LEAST_BYTES)) << count << " threads";
        EXPECT_TRUE(test::in_child([&] {
            expect_accounts("in a child");
            hak_purge_all();
            EXPECT_EQ(purse_bought_bytes(), 0u) << "no heap of a dead thread has a share";
        }));
        hak_purge_all();
        EXPECT_LE(expect_accounts("after a purge"), bought) << count << " threads";
        if (!VALIDATE) expect_paid(count, "after a purge");
        asleep.arrive_and_wait();
        for (std::thread &thread : threads) thread.join();
        expect_accounts("at the end");
    }
}

// Threads that sleep with live blocks are visited, one after the other, before they free these, which no slow path may see. A
// visit returns nothing to the purse that their bins may still take.
TEST_F(Credits, AVisitReturnsNoMoreThanBinsLeave)
{
    enum { THREADS = 24 };
    hak_purge_all();
    std::barrier awake(THREADS + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        std::binary_semaphore asleep{0};
        threads.emplace_back([&awake, &asleep, i] {
            test::Rng rng(i);
            for (int round = 0; round < 4; round++) burst(rng, 2000);
            std::vector<void *> blocks(2000);
            for (void *&block : blocks) block = hak_malloc(1 + rng.below(1024));
            asleep.release();
            awake.arrive_and_wait();
            for (void *block : blocks) hak_free(block);
            std::vector<void *>().swap(blocks);
            awake.arrive_and_wait();
            awake.arrive_and_wait();
        });
        asleep.acquire();
        hak_purge_all();
        expect_accounts("visited");
    }
    awake.arrive_and_wait();
    awake.arrive_and_wait();
    hak_purge_all();
    if (!VALIDATE) expect_paid(THREADS, "after a purge");
    awake.arrive_and_wait();
    for (std::thread &thread : threads) thread.join();
}

// A purse that has hardly anything makes classes give up what they have paid for. Whatever the order of bursts and rounds of the
// tick, the accounts are right, and no class that has paid nothing keeps an empty slab.
TEST_F(Credits, WithLittleMoneyClassesTakeTurns)
{
    hak_purge_all();
    for (size_t left_bytes : {0u, 4096u, 65536u}) {
        test::in_thread([left_bytes] {
            test::Rng rng(left_bytes);
            size_t account = 0;
            for (int round = 0; round < test::rounds(600) && !testing::Test::HasFailure(); round++) {
                const size_t most_bytes = purse_bytes_max(), bought_bytes = purse_bought_bytes() + left_bytes;
                if (most_bytes > bought_bytes) purse_buy(&account, most_bytes - bought_bytes, true);
                const size_t size = size_t{16} << rng.below(11), most = std::min<size_t>(4000, (256u << 10) / size + 2);
                std::vector<void *> blocks(1 + rng.below(most));
                const size_t times = 1 + rng.below(3);
                for (size_t again = 0; again < times; again++) {
                    for (void *&block : blocks) block = hak_malloc(size);
                    if (rng.below(2) == 0) rng.shuffle(blocks);
                    for (void *block : blocks) hak_free(block);
                }
                if (rng.below(4) == 0) pool_tick_force();
                purse_return(&account, SIZE_MAX); // law 10 knows of heaps alone
                hak_inspect_report report;
                EXPECT_TRUE(hak_inspect(&report)) << "round " << round << ", " << size << ": " << report.broken_law;
                const struct owner &own = tcache_self()->heap->owner;
                for (uint32_t c = 1; c < CLASS_COUNT && !heap_owes(tcache_self()->heap); c++) {
                    const bool keeps_empty = own.slabs[c] != nullptr && own.slabs[c]->prev->used_count == 0;
                    EXPECT_FALSE(keeps_empty && own.blocks[c].limit == 0) << "class " << c << " has paid nothing";
                }
            }
        });
    }
}

// Ended threads borrow a heap that no thread has held yet. When it has been flushed, the next thread pays as others do.
TEST_F(Credits, AHeapThatNobodyHeldHasPaidNothing)
{
    std::vector<heap *> borrowed;
    do borrowed.push_back(thread_borrow(tcache_self()));
    while (parking_credit(&borrowed.back()->parking[1]) != 0);
    const heap *fresh = borrowed.back();
    for (heap *each : borrowed) thread_return(each);
    hak_purge_all();
    for (uint32_t c = 1; c < CLASS_COUNT; c++) EXPECT_EQ(fresh->owner.blocks[c].limit, 0u) << c;
}
