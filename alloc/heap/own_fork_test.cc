// own_fork_test.cc: a child finds the heaps of the program's own whole, whatever other threads did to them at the fork.
#include "heap/own_test_support.h"

extern "C" {
#include "base/sync_point.h"
#include "os/lock.h"
#include "os/os.h"
}

namespace {

using test::own_draw_size;
using test::own_figures_of;
using test::OwnHeld;

class OwnFork : public test::OwnTest {};

void use_and_empty(hak_heap *heap, const std::vector<OwnHeld> &held, bool at_rest = true)
{
    test::Rng rng;
    for (const OwnHeld &each : held) {
        ASSERT_TRUE(each.holds());
        hak_free(each.block);
    }
    for (int i = 0; i < 3000; i++) {
        OwnHeld each{nullptr, own_draw_size(rng), rng.next()};
        each.block = hak_heap_malloc(heap, each.size);
        each.fill();
        if (i % 2 == 0) hak_free(each.block);
    }
    if (at_rest) test::inspected();
    hak_heap_free_all(heap);
    hak_heap_figures figures = own_figures_of(heap);
    EXPECT_EQ(figures.committed_bytes, 0u);
    EXPECT_EQ(figures.used_bytes, 0u);
    if (VALIDATE) own_dead_free_all();
    if (at_rest) test::inspected();
    hak_heap_destroy(heap);
}

TEST_F(OwnFork, AChildHasEveryHeapWhole)
{
    SKIP_UNDER_SANITIZER("its own threads and locks are not those of the child");
    hak_heap *heap = hak_heap_new();
    std::vector<OwnHeld> held;
    for (size_t size : test::all_kinds_of_sizes()) {
        held.push_back({hak_heap_malloc(heap, size), size, size});
        held.back().fill();
    }
    test::seed(); // before the threads do: a child would wait for ever for the one that reads it
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; thread++) {
        threads.emplace_back([&, thread] {
            test::Rng rng(thread);
            std::vector<void *> mine;
            while (!end) {
                mine.push_back(hak_heap_malloc(heap, own_draw_size(rng)));
                if (mine.size() > 100) {
                    std::swap(mine[rng.below(mine.size())], mine.back());
                    hak_free(mine.back());
                    mine.pop_back();
                }
            }
            for (void *block : mine) hak_free(block);
        });
    }
    // A child may lack pages that another thread was claiming at the fork; so the laws are not checked there.
    for (int i = 0; i < test::rounds(25); i++) EXPECT_TRUE(test::in_child([&] { use_and_empty(heap, held, false); }));
    end = true;
    for (std::thread &thread : threads) thread.join();
    use_and_empty(heap, held);
}

std::atomic<bool> own_gives_back, own_holds, own_let_go;
std::atomic<unsigned> own_rank{LOCK_OWN};
thread_local int own_may_hold; // at the nth

void own_hold(unsigned rank, bool gives_back)
{
    if (own_may_hold == 0 || rank != own_rank || gives_back != own_gives_back || --own_may_hold > 0) return;
    own_holds = true;
    while (!own_let_go) usleep(100);
}

// Slabs of one page each, and none of them any more: the descriptors of free pages still name the heap.
void fill_and_empty_pages(hak_heap *heap)
{
    for (int i = 0; i < 16 * PAGE_BYTES / 1024; i++) hak_heap_malloc(heap, 1024);
    hak_heap_free_all(heap);
    if (VALIDATE) own_dead_free_all();
}

// Slabs of several pages whose memory was given back but for that of a few blocks.
void make_hollow(hak_heap *heap, std::vector<OwnHeld> &held)
{
    std::vector<void *> rest;
    for (size_t i = 0; i < 60; i++) {
        OwnHeld each{hak_heap_malloc(heap, 20000), 20000, i};
        each.fill();
        if (i % 20 == 0) held.push_back(each);
        else rest.push_back(each.block);
    }
    for (void *block : rest) hak_free(block);
    EXPECT_GT(hak_purge_all(), 40u * 20000);
}

// Each slab of the heap, of one page, lies before one of the other heap. All but a block of each is free, and the memory of
// that was given back.
void make_hollow_in_turn(hak_heap *heap, hak_heap *beside, std::vector<OwnHeld> &held,
                         std::vector<OwnHeld> &held_beside)
{
    std::vector<void *> rest;
    for (size_t i = 0; i < 256; i++) {
        hak_heap *of = i / 32 % 2 == 0 ? heap : beside;
        OwnHeld each{hak_heap_malloc(of, 2048), 2048, i};
        each.fill();
        if (i % 32 != 0) rest.push_back(each.block);
        else (of == heap ? held : held_beside).push_back(each);
    }
    for (void *block : rest) hak_free(block);
    EXPECT_GT(hak_purge_all(), 128u * 2048);
}

TEST_F(OwnFork, AChildMendsAHeapThatWasBeingChanged)
{
    SKIP_WITHOUT_VALIDATE();
    SKIP_UNDER_SANITIZER("its own threads and locks are not those of the child");
    for (bool gives_back : {false, true}) {
        for (int nth = 1; nth <= 6; nth++) {
            hak_heap *heap = hak_heap_new(), *beside = hak_heap_new();
            hak_heap_limit_set(heap, 1u << 30);
            fill_and_empty_pages(heap);
            std::vector<OwnHeld> held, held_beside;
            for (size_t size : {20u, 3000u, 12000u, 32000u, 100000u, 3u << 20})
                for (hak_heap *each : {heap, beside}) {
                    std::vector<OwnHeld> &of = each == heap ? held : held_beside;
                    of.push_back({hak_heap_malloc(each, size), size, size});
                    of.back().fill();
                }
            make_hollow(heap, held);
            make_hollow_in_turn(heap, beside, held, held_beside);
            own_gives_back = gives_back;
            own_holds = own_let_go = false;
            sync_lock_hook = own_hold;
            std::thread thread([&] {
                own_may_hold = nth;
                for (size_t size : {20u, 500u, 100000u, 3u << 20}) hak_free(hak_heap_malloc(heap, size));
                own_may_hold = 0;
            });
            while (!own_holds) usleep(100);
            EXPECT_TRUE(test::in_child([&] {
                sync_lock_hook = nullptr;
                for (hak_heap *each : {heap, beside}) {
                    hak_heap_figures figures = own_figures_of(each);
                    EXPECT_GE(figures.resident_bytes, figures.used_bytes);
                    EXPECT_GE(figures.used_bytes, (size_t)3 << 20);
                }
                EXPECT_EQ(hak_heap_limit_get(heap), 1u << 30);
                use_and_empty(heap, held);
                use_and_empty(beside, held_beside);
                for (const hak_heap *each : {heap, beside}) EXPECT_EQ(each->large_changes, 0u) << "nobody changes it";
            })) << nth;
            own_let_go = true;
            thread.join();
            sync_lock_hook = nullptr;
            use_and_empty(heap, held);
            use_and_empty(beside, held_beside);
        }
    }
}

// Stops at a call that moves a mapping, before the system has moved it or after.
const os_ops *moved_below;
std::atomic<bool> move_stops_after;
thread_local bool may_move;

void move_stop()
{
    may_move = false;
    own_holds = true;
    while (!own_let_go) usleep(100);
}

int stopping_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    if (may_move && !move_stops_after) move_stop();
    int error = moved_below->move(start, old_bytes, target, new_bytes);
    if (may_move) move_stop();
    return error;
}

// Another thread moves a huge block: the page map lacks it, before the system has moved it and after. The child's heap
// counts it until it is mended, and then lacks it; its other huge blocks are whole, on either side in the list.
TEST_F(OwnFork, AHugeBlockIsBeingMoved)
{
    SKIP_UNDER_SANITIZER("its own threads and locks are not those of the child");
    os_ops stopping = *os;
    moved_below = os;
    stopping.move = stopping_move;
    for (bool after : {false, true})
        for (size_t moved = 0; moved < 3; moved++) {
            hak_purge_all(); // a cached mapping would take the block, without a move
            hak_heap *heap = hak_heap_new();
            std::vector<OwnHeld> held;
            for (size_t i = 0; i < 3; i++) {
                held.push_back({hak_heap_malloc(heap, 5 * test::MIB), 5 * test::MIB, i});
                held.back().fill();
            }
            // Nothing may lie free behind the block.
            void *const behind = mmap((char *)held[moved].block + 5 * test::MIB, PAGE_BYTES, PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            move_stops_after = after;
            own_holds = own_let_go = false;
            os = &stopping;
            std::thread thread([&] {
                may_move = true;
                held[moved].block = hak_heap_realloc(heap, held[moved].block, 40 * test::MIB);
                EXPECT_FALSE(may_move) << "it was not moved";
                own_holds = true;
            });
            while (!own_holds) usleep(100);
            EXPECT_TRUE(test::in_child([&] {
                std::vector<OwnHeld> rest = held;
                rest.erase(rest.begin() + (long)moved);
                EXPECT_EQ(own_figures_of(heap).used_bytes, 10 * test::MIB);
                use_and_empty(heap, rest);
            })) << "block "
                << moved << (after ? ", after" : ", before");
            own_let_go = true;
            thread.join();
            os = moved_below;
            if (behind != MAP_FAILED) munmap(behind, PAGE_BYTES);
            use_and_empty(heap, held);
        }
}

// Another thread had counted a block that it had not made yet: the child's heap, which no thread was changing, does not
// count it.
TEST_F(OwnFork, AChildDoesNotCountABlockThatWasNeverMade)
{
    SKIP_WITHOUT_VALIDATE();
    SKIP_UNDER_SANITIZER("its own threads and locks are not those of the child");
    EXPECT_TRUE(test::in_child([&] {
        hak_heap *heap = hak_heap_new();
        void *held = hak_heap_malloc(heap, 3u << 20);
        const uint64_t used_bytes = own_figures_of(heap).used_bytes;
        own_rank = LOCK_HUGE;
        own_gives_back = own_holds = own_let_go = false;
        sync_lock_hook = own_hold;
        std::thread thread([&] {
            own_may_hold = 1;
            hak_free(hak_heap_malloc(heap, 5u << 20));
        });
        while (!own_holds) usleep(100);
        EXPECT_GT(own_figures_of(heap).used_bytes, used_bytes);
        EXPECT_TRUE(test::in_child([&] {
            sync_lock_hook = nullptr;
            EXPECT_EQ(own_figures_of(heap).used_bytes, used_bytes);
            hak_free(held);
            EXPECT_EQ(own_figures_of(heap).used_bytes, 0u);
        }));
        own_let_go = true;
        thread.join();
        sync_lock_hook = nullptr;
        hak_free(held);
        hak_heap_destroy(heap);
    }));
}

// Another thread was taking a body of a destroyed heap: the child has none of them, and makes new ones.
TEST_F(OwnFork, AChildLosesTheListOfDestroyedHeapsThatWasBeingChanged)
{
    SKIP_WITHOUT_VALIDATE();
    SKIP_UNDER_SANITIZER("its own threads and locks are not those of the child");
    auto make_and_destroy = [](size_t count) {
        std::vector<hak_heap *> heaps(count);
        for (hak_heap *&heap : heaps) heap = hak_heap_new();
        for (hak_heap *heap : heaps) {
            hak_free(hak_heap_malloc(heap, 100));
            hak_heap_destroy(heap);
        }
    };
    // In a child, whose metadata no law counts: bodies stay.
    EXPECT_TRUE(test::in_child([&] {
        make_and_destroy(40);
        own_rank = LOCK_OWN_HEAPS;
        own_gives_back = own_holds = own_let_go = false;
        sync_lock_hook = own_hold;
        std::thread thread([&] {
            own_may_hold = 1;
            make_and_destroy(1);
        });
        while (!own_holds) usleep(100);
        EXPECT_TRUE(test::in_child([&] {
            sync_lock_hook = nullptr;
            for (int i = 0; i < 2; i++) make_and_destroy(40);
        }));
        // Whichever of the two lists is asked for first, both are lost.
        EXPECT_TRUE(test::in_child([&] {
            sync_lock_hook = nullptr;
            hak_heap *const newest = own_first();
            EXPECT_NE(hak_heap_new(), nullptr);
            EXPECT_EQ(own_first()->next, newest);
            EXPECT_EQ(own_dead_bytes(), 0u);
        }));
        EXPECT_TRUE(test::in_child([&] {
            sync_lock_hook = nullptr;
            hak_heap *const newest = own_first();
            EXPECT_EQ(own_dead_bytes(), 0u);
            EXPECT_NE(hak_heap_new(), nullptr);
            EXPECT_EQ(own_first()->next, newest) << "a body of the torn list";
        }));
        own_let_go = true;
        thread.join();
        make_and_destroy(40);
    }));
}

} // namespace
