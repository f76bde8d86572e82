/* steps_test_support.h: for tests of what one step does: counts the calls that give memory back to the system. */
#pragma once

#include "heap/heap_test_support.h"

extern "C" {
#include "os/os.h"
}

namespace test {

class StepsTest : public HeapTest {
  protected:
    void SetUp() override
    {
        HeapTest::SetUp();
        real_ = os;
        counting_ = *os;
        counting_.purge = [](void *start, size_t size_bytes) {
            calls_++;
            return real_->purge(start, size_bytes);
        };
        os = &counting_;
    }
    void TearDown() override
    {
        os = real_;
        HeapTest::TearDown();
    }

    static tcache *self() { return tcache_self(); }
    static owner &own() { return self()->heap->owner; }

    static inline size_t calls_;

  private:
    static inline const os_ops *real_;
    static inline os_ops counting_;
};

} // namespace test
