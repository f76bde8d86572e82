// visit_law_test.cc: the law of visits: in random histories of threads that work and sleep, of frees for them by others and of rounds,
// visit_idle visits the heaps that visit.h names, and no other, and nothing stays of what it can reach there.
#include "heap/heap_test_support.h"

#include <sys/resource.h>

#include <semaphore>

extern "C" {
#include "base/sync_point.h"
#include "cache/credits.h"
#include "cache/visit.h"
#include "os/os.h"
#include "superslab/purge.h"
}

namespace {

// A thread that does one piece of work at a time, and sleeps between them.
class Visited {
  public:
    Visited() : thread_([this] { run(); }) {}
    ~Visited()
    {
        work({});
        thread_.join();
    }
    void work(const std::function<void()> &what)
    {
        what_ = what;
        begin_.release();
        done_.acquire();
    }
    struct heap *heap = nullptr;
    std::vector<void *> held; // of its heap
    uint32_t rounds = 0; // since it was on a slow path
    bool is_visited = false; // since then

  private:
    std::function<void()> what_;
    std::binary_semaphore begin_{0}, done_{0};
    std::thread thread_; // last: it uses the others
    void run()
    {
        for (bool ends = false; !ends; done_.release()) {
            begin_.acquire();
            ends = what_ == nullptr;
            if (!ends) what_();
            heap = tcache_self()->heap;
        }
    }
};

class VisitLaw : public test::HeapTest {
  protected:
    static inline std::atomic<unsigned long long> now_;
    test::Rng rng_;

    void SetUp() override
    {
        SKIP_WITHOUT_VALIDATE(); // only that build lets a test move the clock
        HeapTest::SetUp();
        hak_free(hak_malloc(16)); // this thread has a heap
        hak_purge_all();
        now_ = std::max<unsigned long long>(now_, os_now_ms());
        hak_clock_hook = [] { return now_.load(); };
    }
    void TearDown() override
    {
        hak_clock_hook = nullptr;
        HeapTest::TearDown();
    }

    // Lists are parked, credits grow, and some blocks stay.
    void burst(std::vector<void *> &held)
    {
        const size_t size = size_t{16} << rng_.below(8), count = 200 + rng_.below(2000), left = rng_.below(3) * 100;
        for (uint64_t times = 1 + rng_.below(4); times > 0; times--) {
            std::vector<void *> blocks(count);
            for (void *&block : blocks) block = hak_malloc(size);
            for (size_t i = 0; i < count; i++)
                if (times == 1 && i % 8 == 0 && held.size() < left) held.push_back(blocks[i]);
                else hak_free(blocks[i]);
        }
        hak_free(hak_malloc(100000)); // a slow path in any case
    }
    void work(Visited &worker)
    {
        worker.work([&] { burst(worker.held); });
        worker.rounds = 0;
        worker.is_visited = false;
    }
    static void free_for(Visited &worker, size_t count)
    {
        for (; count > 0 && !worker.held.empty(); count--) {
            hak_free(worker.held.back());
            worker.held.pop_back();
        }
        remote_post_all(&tcache_self()->heap->staging);
    }
    static void expect_given_back(const Visited &worker)
    {
        ASSERT_EQ(worker.heap->parked, 0u);
        ASSERT_FALSE(remote_is_pending(&worker.heap->owner));
        for (uint32_t c = 1; c < CLASS_COUNT; c++) {
            const slab *first = worker.heap->owner.slabs[c];
            ASSERT_TRUE(first == nullptr || first->prev->used_count > 0) << "class " << c << " keeps an empty slab";
            ASSERT_LE(parking_credit(&worker.heap->parking[c]), sizeclass_credit(c)) << "class " << c;
            ASSERT_LE(worker.heap->parking[c].paid, owner_used_blocks(&worker.heap->owner, c)) << "class " << c;
        }
        const size_t idle_bytes = owner_idle_bytes(&worker.heap->owner);
        if (idle_bytes > 0) ASSERT_EQ(worker.heap->owner.idle_bytes_kept, idle_bytes) << "it was not trimmed";
    }
    void visit(std::vector<std::unique_ptr<Visited>> &workers)
    {
        uint32_t due = 0;
        std::vector<Visited *> visited;
        for (const auto &each : workers) {
            if (each->heap == nullptr || each->rounds <= VISIT_ROUNDS) continue;
            if (!each->is_visited || remote_is_pending(&each->heap->owner)) visited.push_back(each.get());
        }
        due = (uint32_t)visited.size();
        ASSERT_EQ(visit_idle().given_back, due);
        for (Visited *each : visited) {
            each->is_visited = true;
            expect_given_back(*each);
        }
    }
};

} // namespace

TEST_F(VisitLaw, WhichHeapsAreVisitedAndWhatStays)
{
    std::vector<std::unique_ptr<Visited>> workers(4);
    for (auto &each : workers) each = std::make_unique<Visited>();
    size_t again = 0;
    for (int i = 0; i < 2000; i++) {
        Visited &worker = *workers[rng_.below(workers.size())];
        switch (rng_.below(8)) {
        case 0: work(worker); break;
        case 1:
        case 2:
            again += worker.is_visited && !worker.held.empty();
            free_for(worker, 1 + rng_.below(100));
            break;
        case 3:
        case 4:
            now_ += 2 * PURGE_DELAY_MS;
            ASSERT_TRUE(pool_tick(now_));
            for (auto &each : workers) each->rounds++;
            break;
        default: visit(workers);
        }
        if (HasFatalFailure()) FAIL() << "at step " << i;
    }
    EXPECT_GT(again, 5u);
    for (auto &each : workers) free_for(*each, SIZE_MAX);
}

// No scheduler of a test is hooked here: a thread that comes to its heap during a step of a visit sleeps in the system until the
// step ends, and the visitor learns of it.
TEST_F(VisitLaw, WhoWaitsForAStepSleepsUntilItEnds)
{
    long sleeps = 0;
    for (int i = 0; i < 20; i++) {
        std::binary_semaphore has_heap{0}, is_visited{0};
        std::atomic<tcache *> theirs{nullptr};
        std::atomic<bool> is_in{false};
        std::thread thread([&] {
            hak_free(hak_malloc(100));
            theirs = tcache_self();
            has_heap.release();
            is_visited.acquire();
            rusage before, after;
            getrusage(RUSAGE_THREAD, &before);
            tcache_busy_begin(tcache_self());
            is_in = true;
            tcache_busy_end(tcache_self());
            getrusage(RUSAGE_THREAD, &after);
            sleeps += after.ru_nvcsw - before.ru_nvcsw;
        });
        has_heap.acquire();
        tcache *holder = visit_begin(theirs.load()->heap);
        ASSERT_EQ(holder, theirs.load());
        is_visited.release();
        for (int look = 0; look < 10000 && (holder->busy & BUSY_WAITED_FOR) == 0; look++) usleep(1000);
        EXPECT_EQ(holder->busy, BUSY_VISITED | BUSY_WAITED_FOR);
        usleep(1000); // it sleeps by now, most likely
        EXPECT_FALSE(is_in);
        EXPECT_TRUE(visit_end(holder));
        for (int look = 0; look < 10000 && !is_in; look++) usleep(1000);
        EXPECT_TRUE(is_in) << "nobody has woken it";
        if (!is_in) os_wake_one((uint32_t *)&holder->busy);
        thread.join();
        if (HasFailure()) return;
    }
    EXPECT_GT(sleeps, 0) << "it has always waited awake";
}
