// gaps_test.cc: each time a thread has given back a lock, and holds no other, another thread makes every kind of call.
// What a lock protects must be whole before it is given back: a store that comes too late meets the other thread here.
#include "heap/own_test_support.h"

extern "C" {
#include "base/sync_point.h"
#include "os/os.h"
}

namespace {

using test::OwnHeld;

class Gaps : public test::OwnTest {};

const std::vector<size_t> kGapSizes = {100, 20000, 100000, RUN_BYTES_MAX, 3 << 20, HUGE_CACHE_BYTES_MAX / 2 + 1};

// The blocks and the heap of the other thread, which it keeps from one gap to the next.
class GapThread {
  public:
    void run()
    {
        std::vector<OwnHeld> old = std::exchange(held_, {});
        hak_heap *old_heap = std::exchange(heap_, hak_heap_new());
        for (size_t size : kGapSizes)
            for (bool own : {false, true}) {
                held_.push_back({own ? hak_heap_malloc(heap_, size) : hak_malloc(size), size, ++stamp_});
                held_.back().fill();
            }
        give_back(old, old_heap);
        if (++gaps % 8 == 0) hak_purge_all();
    }
    void end() { give_back(held_, heap_); }

    int gaps = 0;

  private:
    static void give_back(const std::vector<OwnHeld> &held, hak_heap *heap)
    {
        for (const OwnHeld &each : held) {
            ASSERT_TRUE(each.holds()) << each.size;
            hak_free(each.block);
        }
        hak_heap_destroy(heap);
    }
    std::vector<OwnHeld> held_;
    hak_heap *heap_ = nullptr;
    uint64_t stamp_ = 0;
};

GapThread *gap_thread;
thread_local bool has_gaps;
thread_local int locks_held;

void gap_count_locks(unsigned, bool gives_back)
{
    if (has_gaps) locks_held += gives_back ? -1 : 1;
}

void gap_step(const char *step)
{
    if (!has_gaps || locks_held != 0 || strcmp(step, "lock_release") != 0) return;
    test::in_thread([] { gap_thread->run(); });
}

// The system gap_refuses to take back address space for as long as this says.
bool gap_refuses;
const os_ops *gaps_below;

int gap_release(void *start, size_t size_bytes)
{
    return gap_refuses ? ENOMEM : gaps_below->release(start, size_bytes);
}

void gap_calls()
{
    for (int round = 0; round < 2; round++) {
        std::vector<OwnHeld> held;
        hak_heap *heap = hak_heap_new();
        for (size_t size : kGapSizes)
            for (int i = 0; i < 3; i++) {
                held.push_back({i == 0 ? hak_heap_malloc(heap, size) : hak_malloc(size), size, 1000 * size});
                held.back().fill();
            }
        gap_refuses = round == 1;
        for (const OwnHeld &each : held) {
            ASSERT_TRUE(each.holds()) << each.size;
            hak_free(each.block);
        }
        hak_heap_destroy(heap);
        hak_purge_all();
        gap_refuses = false;
        hak_purge_all();
    }
}

} // namespace

TEST_F(Gaps, AnotherThreadRunsWheneverALockIsFree)
{
    os_ops refusing = *(gaps_below = os);
    refusing.release = gap_release;
    os = &refusing;
    GapThread others;
    gap_thread = &others;
    sync_lock_hook = gap_count_locks;
    hak_sync_point_hook = gap_step;
    test::in_thread([] {
        has_gaps = true;
        gap_calls();
        has_gaps = false;
    });
    hak_sync_point_hook = nullptr;
    sync_lock_hook = nullptr;
    others.end();
    hak_purge_all();
    os = gaps_below;
    printf("%d gaps\n", others.gaps);
    EXPECT_GE(others.gaps, 100);
}
