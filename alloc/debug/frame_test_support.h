// frame_test_support.h: makes and gives up frames directly. The program runs at level 1, so that hak_* and the fixtures use
// blocks without frames.
#pragma once

#include "heap/heap_test_support.h"

extern "C" {
#include "debug/frame.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
}

namespace test::frames {

inline char *take(size_t size, size_t align = 0, bool zero = false, frame_family family = FAMILY_MALLOC)
{
    return static_cast<char *>(frame_alloc(family, align, size, zero));
}

inline void release(void *block, frame_family family = FAMILY_MALLOC)
{
    frame_free(block, {family, false, false, 0, 0});
}

class FrameTest : public test::HeapTest {
  protected:
    void TearDown() override
    {
        quarantine_empty();
        test::HeapTest::TearDown();
    }
};
class FrameDeathTest : public FrameTest {};

} // namespace test::frames
