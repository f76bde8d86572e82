// thread_litmus_test.cc: the pairs of cache/thread.c, one hand-over each.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "cache/thread.h"
#include "hakmem/hakmem.h"
}

namespace {

int watched;             // used by the function; thread_watch publishes it
std::atomic<int> begun;  // relaxed

void watch(bool begins)
{
    if (begins) begun.store(watched, std::memory_order_relaxed);
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
