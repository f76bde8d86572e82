// cancel_test.cc: threads are cancelled (deferred) while they allocate and free, at a cancellation point outside of the
// allocator. Cleanup handlers free the thread's blocks. No call of malloc is a cancellation point, so nothing is lost.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <unistd.h>

namespace {

constexpr size_t kHeld = 48;

// What one thread holds. Only that thread touches it; its cleanup handlers are the last to do so.
struct Worker {
    explicit Worker(uint64_t stream) : rng(stream) {}
    test::Rng rng;
    void *held[kHeld] = {};
    size_t sizes[kHeld] = {};
    bool inside = false; // the thread is in a call of the allocator
    std::atomic<uint64_t> turns = 0;
    std::atomic<int> cleanups = 0, torn = 0;
};

// Two handlers, as in a program: one for the block in use, and this one for all blocks that the thread holds.
void give_all(void *argument)
{
    auto *worker = static_cast<Worker *>(argument);
    worker->cleanups++;
    if (worker->inside) worker->torn++;
    for (size_t i = 0; i < kHeld; i++) {
        if (worker->held[i] != nullptr && !test::pattern_holds(worker->held[i], worker->sizes[i], i, 512))
            worker->torn++;
        hak_free(worker->held[i]);
        worker->held[i] = nullptr;
    }
}

void give_one(void *block)
{
    hak_free(block);
}

size_t draw_size(test::Rng &rng)
{
    size_t kind = rng.below(64);
    return 1 + rng.below(kind == 0 ? 6 << 20 : kind < 8 ? RUN_BYTES_MAX : kind < 20 ? 30000 : 2000);
}

// One turn: allocates a block that has its own cleanup handler, and replaces some of the held blocks.
void turn(Worker &worker)
{
    size_t i = worker.rng.below(kHeld), size = draw_size(worker.rng);
    worker.inside = true;
    void *passing = hak_malloc(draw_size(worker.rng));
    worker.inside = false;
    pthread_cleanup_push(give_one, passing);
    if (worker.rng.below(8) == 0) pthread_testcancel();
    worker.inside = true;
    void *block = worker.held[i] == nullptr ? hak_malloc(size) : hak_realloc(worker.held[i], size);
    worker.inside = false;
    if (block != nullptr) {
        worker.held[i] = block;
        worker.sizes[i] = size;
        test::pattern_fill(block, size, i, 512);
    }
    pthread_cleanup_pop(1);
    if (worker.rng.below(3) == 0) {
        worker.inside = true;
        hak_free(worker.held[i]);
        if (worker.rng.below(64) == 0) hak_purge();
        worker.inside = false;
        worker.held[i] = nullptr;
    }
}

void *run(void *argument)
{
    auto *worker = static_cast<Worker *>(argument);
    pthread_cleanup_push(give_all, worker);
    for (;;) {
        turn(*worker);
        worker->turns++;
        if (worker->rng.below(16) == 0) pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return nullptr;
}

class Cancel : public test::HeapTest {};

} // namespace

TEST_F(Cancel, ThreadsThatHoldBlocksAreCancelled)
{
    SKIP_UNDER_SANITIZER("its interceptors are cancellation points of their own");
    uint64_t turns = 0;
    int cancelled = 0;
    test::Rng rng(99);
    for (int round = 0; round < 20; round++) {
        std::vector<std::unique_ptr<Worker>> workers;
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) {
            workers.push_back(std::make_unique<Worker>((uint64_t)round * 3 + (uint64_t)i));
            ASSERT_EQ(pthread_create(&threads[i], nullptr, run, workers.back().get()), 0);
        }
        for (int i = 0; i < 3; i++) {
            uint64_t from = rng.below(200);
            while (workers[(size_t)i]->turns < from) usleep(50);
            ASSERT_EQ(pthread_cancel(threads[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            void *result = nullptr;
            ASSERT_EQ(pthread_join(threads[i], &result), 0);
            EXPECT_EQ(result, PTHREAD_CANCELED);
            const Worker &worker = *workers[(size_t)i];
            EXPECT_EQ(worker.torn, 0) << "cancelled inside the allocator, or a block changed";
            EXPECT_EQ(worker.cleanups, 1);
            turns += worker.turns;
            cancelled++;
        }
        test::expect_at_rest();
        if (HasFailure()) FAIL() << "round " << round;
    }
    printf("%d threads cancelled after %llu turns\n", cancelled, (unsigned long long)turns);
    EXPECT_GT(turns, 500u);
}
