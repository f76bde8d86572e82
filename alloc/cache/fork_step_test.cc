// fork_step_test.cc: fork while another thread is at a given step of a change of its heap or of a queue.
#include "heap/heap_test_support.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

extern "C" {
#include "base/sync_point.h"
#include "cache/thread.h"
#include "slab/owner.h"
#include "slab/remote.h"
#include "superslab/purse.h"
}

namespace {

class ForkAtStep : public test::HeapTest {};

std::atomic<const char *> stop_at;
std::atomic<bool> stopped;
thread_local bool may_stop;

void stop_hook(const char *step)
{
    const char *at = stop_at;
    if (!may_stop || at == nullptr || strcmp(at, step) != 0) return;
    may_stop = false;
    stopped = true;
    while (stop_at != nullptr) std::this_thread::yield();
}

// Runs work in a thread until it reaches the step; then forks, and runs child in the child.
template <class Work, class Child> void fork_at(const char *step, Work work, Child child, size_t stack_bytes = 1 << 20)
{
    stop_at = step;
    stopped = false;
    hak_sync_point_hook = stop_hook;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_t thread;
    static void (*body)();
    static Work *passed;
    passed = &work;
    body = [] { (*passed)(); };
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void *) -> void * {
                      hak_free(hak_malloc(100)); // the thread takes a heap
                      may_stop = true;
                      body();
                      return nullptr;
                  },
                  nullptr),
              0);
    pthread_attr_destroy(&attributes);
    for (int ms = 0; !stopped && ms < 10000; ms++) usleep(1000);
    ASSERT_TRUE(stopped) << "never came to " << step;
    EXPECT_TRUE(test::in_child(
        [&] {
            stop_at = nullptr;
            child();
        },
        30))
        << step;
    stop_at = nullptr;
    pthread_join(thread, nullptr);
    hak_sync_point_hook = nullptr;
}

} // namespace

TEST_F(ForkAtStep, WhileAnotherThreadHoldsALockOrChangesItsHeap)
{
    for (const char *step : {"lock_acquire", "lock_release", "superslab_claim", "index_lower", "superslab_free",
                             "slab_release", "remote_drain", "owner_abandon"}) {
        std::vector<void *> full;
        if (strcmp(step, "index_lower") == 0) // fill a superslab to its last page
            for (int i = 0; i < 128; i++) full.push_back(hak_malloc(PAGE_BYTES));
        fork_at(
            step,
            [] {
                std::vector<void *> blocks;
                for (int i = 0; i < 40; i++) blocks.push_back(hak_malloc(20000));
                hak_free(hak_malloc(5 << 20));
                for (int i = 0; i < 130; i++) blocks.push_back(hak_malloc(PAGE_BYTES));
                for (void *block : blocks) hak_free(block);
                hak_purge();
            },
            [] {
                test::use_all_kinds_of_sizes(2);
                test::in_threads(2, [](int) { test::use_all_kinds_of_sizes(1); });
                hak_purge();
            });
        for (void *block : full) hak_free(block);
    }
}

TEST_F(ForkAtStep, AListHalfGivenBackIsNotTrusted)
{
    // The busy thread's bin still holds a list of which some blocks are back in their slabs. Giving that list back
    // again would hand blocks out twice.
    fork_at(
        "slab_release",
        [] {
            std::vector<void *> blocks;
            for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(20000));
            for (void *block : blocks) hak_free(block);
        },
        [] {
            test::in_threads(2, [](int) {
                std::vector<void *> blocks;
                for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(20000));
                for (void *block : blocks) hak_free(block);
            });
        });
}

// What a busy thread has bought is lost with its heap, which the child leaves alone: the purse has it again.
TEST_F(ForkAtStep, WhatABusyThreadHasBoughtComesBack)
{
    for (const char *step : {"slab_release", "superslab_claim", "superslab_free"})
        fork_at(
            step,
            [] {
                may_stop = false;
                std::vector<void *> blocks;
                for (size_t size : {64u, 512u, 5000u}) {
                    for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(size));
                    for (void *block : blocks) hak_free(block);
                    blocks.clear();
                }
                EXPECT_GT(tcache_self()->heap->owner.bought_bytes, 0u);
                may_stop = true;
                for (int i = 0; i < 400; i++) blocks.push_back(hak_malloc(20000));
                for (void *block : blocks) hak_free(block);
            },
            [] {
                size_t bought_bytes = 0;
                for (uint32_t id = 1; id <= owner_count(); id++) bought_bytes += owner_with_id(id)->bought_bytes;
                EXPECT_EQ(purse_bought_bytes(), bought_bytes) << "heaps of threads that the child lacks have a share";
            });
}

TEST_F(ForkAtStep, TheGrandchildOfABusyThread)
{
    // The child does not touch the heap of the busy thread, and libc unmaps that thread's large stack.
    fork_at(
        "superslab_claim", [] { hak_free(hak_malloc(20000)); },
        [] {
            for (int i = 0; i < 3; i++) test::in_threads(1, [](int) { hak_free(hak_malloc(10)); });
            EXPECT_TRUE(test::in_child([] { test::use_all_kinds_of_sizes(1); }));
        },
        64 << 20);
}

TEST_F(ForkAtStep, BetweenPostAndQueue)
{
    // A slab of the forking thread has posted blocks but is on no queue yet: the child must queue it.
    static std::vector<void *> blocks;
    for (int i = 0; i < 2000; i++) blocks.push_back(hak_malloc(512));
    fork_at(
        "pending_push",
        [] {
            for (int i = 0; i < 500; i++) hak_free(blocks[(size_t)i]);
        },
        [] {
            test::in_threads(1, [](int) {
                for (int i = 600; i < 2000; i++) hak_free(blocks[(size_t)i]);
            });
            hak_purge();
            hak_purge();
            hak_inspect_report report;
            EXPECT_TRUE(hak_inspect(&report)) << report.broken_law;
        });
    for (int i = 500; i < 2000; i++) hak_free(blocks[(size_t)i]);
    blocks.clear();
}

// A block was posted to an orphan's slab, which is on no queue yet. Nobody else drains what the child queues.
TEST_F(ForkAtStep, BetweenPostAndQueueOfAnOrphan)
{
    static std::vector<void *> blocks[2]; // of two, since the busy thread adopts one
    test::in_threads(2, [](int thread) {
        static std::atomic<int> here;
        here++;
        while (here < 2) std::this_thread::yield();
        for (int i = 0; i < 1000; i++) blocks[thread].push_back(hak_malloc(512));
        here++;
        while (here < 4) std::this_thread::yield();
    });
    fork_at(
        "pending_push",
        [] {
            for (std::vector<void *> &each : blocks)
                for (int i = 0; i < 500; i++) hak_free(each[(size_t)i]);
        },
        [] {
            for (uint32_t id = 1; id <= owner_count(); id++) {
                struct owner *owner = owner_with_id(id);
                EXPECT_FALSE(owner_is_orphan(owner) && remote_is_pending(owner)) << id;
            }
            hak_inspect_report report;
            EXPECT_TRUE(hak_inspect(&report)) << report.broken_law;
        });
    for (std::vector<void *> &each : blocks) {
        for (size_t i = 500; i < 1000; i++) hak_free(each[i]);
        each.clear();
    }
}

// Another thread posts what it has staged, as on its first slow path in a round of the tick, and has come to the first list.
TEST_F(ForkAtStep, BetweenTwoStagesThatArePosted)
{
    static std::vector<void *> blocks;
    for (size_t size : {512u, 1024u, 2048u})
        for (int i = 0; i < 5; i++) blocks.push_back(hak_malloc(size));
    fork_at(
        "remote_post",
        [] {
            for (void *block : blocks) hak_free(block);
            remote_post_all(&tcache_self()->heap->staging);
        },
        [] {
            thread_settle_left();
            for (uint32_t id = 1; id <= owner_count(); id++) {
                auto *heap = reinterpret_cast<struct heap *>(owner_with_id(id));
                if (heap->tcache != nullptr) continue;
                for (const stage &each : heap->staging.stages)
                    EXPECT_EQ(each.count, 0u) << "staged, and nobody posts it";
            }
        });
    blocks.clear();
}
