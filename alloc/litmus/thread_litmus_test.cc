// thread_litmus_test.cc: the pairs of cache/thread.c, one hand-over each.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "cache/thread.h"
#include "cache/visit.h"
#include "hakmem/hakmem.h"
}

namespace {

int watched;             // used by the function; thread_watch publishes it
std::atomic<int> begun;  // relaxed

void watch(bool begins)
{
    if (begins) begun.store(watched, std::memory_order_relaxed);
}

// Takes slow paths: a list is parked.
void park_some()
{
    void *blocks[600];
    for (void *&block : blocks) block = hak_malloc(256);
    for (void *block : blocks) hak_free(block);
}

} // namespace

// thread_watch (release) and a thread's first slow path (acquire).
TEST(LitmusThread, WhatTheWatchUses)
{
    hak_free(hak_malloc(1)); // starts the heap
    litmus::in_order({
        [] {
            watched = 11;
            thread_watch(watch);
        },
        [] { hak_free(hak_malloc(1)); },
    });
    thread_watch(nullptr);
    EXPECT_EQ(begun.load(), 11);
}

// tcache_busy_end (release) and visit_begin (acquire).
TEST(LitmusThread, WhatTheVisitorFinds)
{
    hak_free(hak_malloc(1));
    litmus::in_order({[] { park_some(); }, [] { EXPECT_EQ(visit_all(), 0u); }});
}

// visit_end (release) and tcache_busy_begin (acquire).
TEST(LitmusThread, WhatTheVisitorLeaves)
{
    hak_free(hak_malloc(1));
    litmus::in_order({[] { visit_all(); }, [] { park_some(); }}, {.prepare = [](uint32_t thread) {
                         if (thread == 1) park_some();
                     }});
}
