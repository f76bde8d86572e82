// own_test_support.h: for the tests of heaps of the program's own.
#pragma once

#include "heap/heap_test_support.h"

extern "C" {
#include "heap/own_inside.h"
}

namespace test {

struct OwnHeld {
    void *block;
    size_t size;
    uint64_t stamp;
    size_t step() const { return std::max<size_t>(64, size / 16 & ~(size_t)63); }
    void fill() const { pattern_fill(block, size, stamp, step()); }
    bool holds() const { return pattern_holds(block, size, stamp, step()); }
};

inline hak_heap_figures own_figures_of(hak_heap *heap)
{
    hak_heap_figures figures;
    EXPECT_EQ(hak_heap_figures_get(heap, &figures, sizeof figures), sizeof figures);
    return figures;
}

inline size_t own_draw_size(Rng &rng)
{
    switch (rng.below(8)) {
    case 0: return rng.between(1024, SMALL_BYTES_MAX);
    case 1: return rng.below(8) == 0 ? rng.between(SMALL_BYTES_MAX, RUN_BYTES_MAX) : rng.between(1, 64);
    case 2: return rng.below(64) == 0 ? rng.between(RUN_BYTES_MAX, 2 * RUN_BYTES_MAX) : 0;
    default: return rng.between(1, 1024);
    }
}

// At rest before and after, with no pages of destroyed heaps.
class OwnTest : public HeapTest {
  protected:
    void SetUp() override
    {
        if (VALIDATE) own_dead_free_all();
        HeapTest::SetUp();
    }
    void TearDown() override
    {
        if (VALIDATE) own_dead_free_all();
        HeapTest::TearDown();
    }
    // All of a heap's blocks were freed one by one.
    static void expect_empty(hak_heap *heap)
    {
        hak_purge_all();
        hak_heap_figures figures = own_figures_of(heap);
        EXPECT_EQ(figures.used_bytes, 0u);
        EXPECT_EQ(figures.resident_bytes, 0u);
        EXPECT_EQ(figures.committed_bytes, 0u);
    }
};

} // namespace test
