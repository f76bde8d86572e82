// fork_lock_test.cc: fork while another thread holds a lock of the allocator: each lock, just after it was taken and
// just before it is released. The child must not wait for a thread that it does not have, and must repair the data that
// the lock protects.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>

extern "C" {
#include "base/sync_point.h"
#include "cache/thread.h"
#include "os/lock.h"
#include "os/os.h"
}

namespace {

constexpr const char *kNames[] = {"background", "start", "bound",   "dump", "visit",   "heaps", "own", "own_heaps",
                                  "huge",       "guard", "profile", "pool", "modules", "meta",  "map"};
static_assert(std::size(kNames) == LOCK_COUNT);

// The thread that the hook stops, and the lock at which it does.
std::atomic<unsigned> wanted_rank;
std::atomic<bool> wanted_gives_back, holds, let_go;
thread_local bool may_hold;

void hold(unsigned rank, bool gives_back)
{
    if (!may_hold || rank != wanted_rank || gives_back != wanted_gives_back) return;
    may_hold = false;
    int before = errno;
    holds = true;
    while (!let_go) usleep(100);
    errno = before;
}

// Takes two of the locks: allocates more superslabs than are kept, and a huge block.
void work()
{
    std::vector<void *> blocks;
    for (int i = 0; i < 40; i++) blocks.push_back(hak_malloc(RUN_BYTES_MAX));
    for (int i = 0; i < 100; i++) blocks.push_back(hak_malloc(20000));
    blocks.push_back(hak_malloc(5 << 20));
    for (void *block : blocks) hak_free(block);
    hak_purge();
}

// Takes the lock of this rank. work() does not take the others: a process starts once, this build does not sample, and
// a thread that finds an orphan needs no new heap and no metadata.
void work_of(unsigned rank)
{
    if (rank == LOCK_POOL || rank == LOCK_HUGE) return work();
    if (rank == LOCK_VISIT) return (void)hak_purge_all(); // the forking thread's heap is visited
    lock_acquire((enum lock_rank)rank);
    lock_release((enum lock_rank)rank);
}

// In the child: uses every kind of memory, in the old thread and in new ones, and expects the heap at rest.
void use_all()
{
    std::vector<void *> blocks;
    for (size_t size : test::all_kinds_of_sizes()) {
        void *block = hak_malloc(size);
        ASSERT_NE(block, nullptr);
        test::pattern_fill(block, size, size, size < 200000 ? 256 : 1 << 17);
        blocks.push_back(block);
    }
    size_t at = 0;
    for (size_t size : test::all_kinds_of_sizes()) {
        ASSERT_TRUE(test::pattern_holds(blocks[at], size, size, size < 200000 ? 256 : 1 << 17));
        hak_free(blocks[at++]);
    }
}

// Makes more heaps than there are spare bodies that wait, and destroys them.
void use_own_heaps()
{
    std::vector<hak_heap *> heaps;
    for (int i = 0; i < 40; i++) heaps.push_back(hak_heap_new());
    for (hak_heap *heap : heaps) hak_heap_destroy(heap);
}

void child()
{
    use_own_heaps();
    use_all();
    test::in_threads(3, [](int) { use_all(); });
    for (unsigned rank = 0; rank < LOCK_COUNT; rank++) {
        lock_acquire((enum lock_rank)rank);
        lock_release((enum lock_rank)rank);
    }
    hak_purge();
}

void *held_thread(void *rank)
{
    hak_free(hak_malloc(100)); // the thread takes a heap
    may_hold = true;
    work_of(*static_cast<unsigned *>(rank));
    may_hold = false;
    return nullptr;
}

class ForkLock : public test::HeapTest {};

} // namespace

TEST_F(ForkLock, EachLockIsHeldAtTheFork)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    SKIP_WITHOUT_VALIDATE();
    int forks = 0;
    use_own_heaps();
    for (unsigned rank = 0; rank < LOCK_COUNT; rank++)
        for (bool gives_back : {false, true}) {
            wanted_rank = rank;
            wanted_gives_back = gives_back;
            holds = let_go = false;
            sync_lock_hook = hold;
            pthread_t thread;
            ASSERT_EQ(pthread_create(&thread, nullptr, held_thread, &rank), 0);
            for (int ms = 0; !holds && ms < 20000; ms++) usleep(1000);
            EXPECT_TRUE(holds) << "no thread came to hold the lock " << kNames[rank];
            EXPECT_TRUE(test::in_child(
                [] {
                    sync_lock_hook = nullptr;
                    child();
                },
                30))
                << "lock " << kNames[rank] << (gives_back ? ", about to be given back" : ", just taken");
            forks++;
            let_go = true;
            pthread_join(thread, nullptr);
            sync_lock_hook = nullptr;
        }
    printf("%d forks, each with a thread inside one of %d locks\n", forks, (int)LOCK_COUNT);
}

// A list that another thread may have half changed is dropped: the child leaves its mappings alone, the parent does not.
TEST_F(ForkLock, MappingsToTryAgainAreTheParents)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    char *block = static_cast<char *>(hak_malloc(8 * test::MIB));
    os_ops refusing = *os;
    const os_ops *inner = os;
    refusing.release = [](void *, size_t) { return ENOMEM; };
    os = &refusing;
    hak_free(block);
    hak_purge();
    os = inner;
    ASSERT_TRUE(test::is_mapped(block));
    const auto release_one = [] {
        hak_free(hak_malloc(4 * test::MIB));
        hak_purge(); // tries again what the system refused
    };
    holds = let_go = false;
    std::thread holder([] {
        lock_acquire(LOCK_HUGE);
        holds = true;
        while (!let_go) usleep(100);
        lock_release(LOCK_HUGE);
    });
    while (!holds) usleep(100);
    EXPECT_TRUE(test::in_child([&] {
        release_one();
        EXPECT_TRUE(test::is_mapped(block));
    }));
    let_go = true;
    holder.join();
    release_one();
    EXPECT_FALSE(test::is_mapped(block));
}

// Forks while other threads wait for a lock that one thread holds.
TEST_F(ForkLock, WithThreadsThatWaitForIt)
{
    SKIP_WITHOUT_THREADS_IN_A_CHILD();
    SKIP_WITHOUT_VALIDATE();
    for (unsigned rank : {(unsigned)LOCK_POOL, (unsigned)LOCK_HUGE}) {
        wanted_rank = rank;
        wanted_gives_back = false;
        holds = let_go = false;
        sync_lock_hook = hold;
        pthread_t thread;
        ASSERT_EQ(pthread_create(&thread, nullptr, held_thread, &rank), 0);
        for (int ms = 0; !holds && ms < 20000; ms++) usleep(1000);
        ASSERT_TRUE(holds);
        std::vector<std::thread> waiters;
        for (int i = 0; i < 2; i++)
            waiters.emplace_back([rank] {
                lock_acquire((enum lock_rank)rank);
                lock_release((enum lock_rank)rank);
            });
        usleep(20000); // they sleep by now, most likely
        EXPECT_TRUE(test::in_child(
            [] {
                sync_lock_hook = nullptr;
                child();
            },
            30))
            << kNames[rank];
        let_go = true;
        pthread_join(thread, nullptr);
        for (std::thread &waiter : waiters) waiter.join();
        sync_lock_hook = nullptr;
    }
}
