// swings_test.cc: memory that a program frees and wants again within WINDOW_DELAYS stays, whatever its size, the period of the
// swings, and how much of it is never freed; and goes back when the swings end.
#include "heap/heap_test_support.h"

#include <vector>

extern "C" {
#include "hakmem/validate.h"
#include "os/os.h"
#include "slab/trim.h"
#include "superslab/limit.h"
#include "superslab/purge.h"
}

namespace {

// Only pass() moves the clock. Bytes that go back to the system are counted.
class Swings : public test::HeapTest {
  protected:
    void SetUp() override
    {
        HeapTest::SetUp();
        hak_free(hak_malloc(256 * test::MIB)); // a peak that no test reaches: a heap trims when the process grows, too
        now_ms_ = os_now_ms();
        hak_clock_hook = [] { return now_ms_; };
        real_ = os;
        counting_ = *os;
        counting_.purge = [](void *start, size_t size_bytes) {
            bytes_back_ += size_bytes;
            return real_->purge(start, size_bytes);
        };
        counting_.release = [](void *start, size_t size_bytes) {
            bytes_back_ += size_bytes;
            return real_->release(start, size_bytes);
        };
        os = &counting_;
        hak_purge_all();
    }
    void TearDown() override
    {
        os = real_;
        hak_clock_hook = nullptr;
        HeapTest::TearDown();
    }

    // Slow paths come all the time.
    static void pass(double delays)
    {
        for (double passed = 0; passed < delays; passed += 0.25) {
            now_ms_ += PURGE_DELAY_MS / 4;
            hak_free(hak_malloc(40000));
        }
    }

    static size_t committed() { return limit_committed_bytes(); }

    // One in kept_share blocks is never freed; 0: each is.
    struct Shape {
        size_t size;
        double period;
        size_t kept_share;
    };

    static void swing(const Shape &shape, std::vector<void *> &kept)
    {
        std::vector<void *> blocks;
        for (size_t i = 0; i < std::max<size_t>(BYTES / shape.size, 1); i++) {
            void *block = hak_malloc(shape.size);
            bool is_kept = shape.kept_share != 0 && kept.size() * shape.size * shape.kept_share < BYTES &&
                           i % shape.kept_share == 0;
            (is_kept ? kept : blocks).push_back(block);
        }
        pass(shape.period / 2);
        for (void *each : blocks) hak_free(each);
        pass(shape.period / 2);
    }

    static constexpr size_t BYTES = 12 * test::MIB;
    static constexpr int CYCLES = 8;
    static inline size_t bytes_back_;

  private:
    static inline unsigned long long now_ms_;
    static inline const os_ops *real_;
    static inline os_ops counting_;
};

TEST_F(Swings, OfEachSizeAndPeriodAreKeptUntilTheyEnd)
{
    SKIP_WITHOUT_VALIDATE(); // a hook stops the clock
    for (size_t size : {size_t{160}, size_t{700}, size_t{4096}, size_t{20000}, size_t{100000}, size_t{1500000},
                        3 * test::MIB, 12 * test::MIB})
        for (double period : {0.2, 1.0, 1.9})
            for (size_t kept_share : {0, 32}) {
                if (size > BYTES / 64 && kept_share != 0) continue;
                SCOPED_TRACE(testing::Message() << size << " bytes, " << period << " delays, kept 1/" << kept_share);
                hak_purge_all();
                const size_t before = committed();
                std::vector<void *> kept;
                const Shape shape = {size, period, kept_share};
                for (int i = 0; i < CYCLES; i++) swing(shape, kept);
                bytes_back_ = 0;
                for (int i = 0; i < CYCLES; i++) swing(shape, kept);
                // A trim may see now and then whether its memory is still wanted.
                EXPECT_LE(bytes_back_, 2 * BYTES);
                pass(2 * WINDOW_DELAYS + 8 + (1 << TRIM_WAIT_LOG2_MAX));
                if (kept_share == 0) EXPECT_LE(committed() - before, (size_t)DIRTY_PAGES_MIN * PAGE_BYTES);
                for (void *each : kept) hak_free(each);
            }
}

} // namespace
