// quarantine_litmus_test.cc: the pairs of debug/quarantine.c, one hand-over each. The rings of these tests' threads are
// the first ones of the process, since a ring is made only if none is free.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "debug/frame.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
}

namespace {

constexpr size_t THREADS_MAX = 3;

class LitmusQuarantine : public testing::Test {
  protected:
    // Gives each thread a heap and a block of it, but no ring.
    void prepare(uint32_t thread)
    {
        blocks[thread] = frame_alloc(FAMILY_MALLOC, 0, 100, false);
        starts[thread].give(heap_lookup(blocks[thread]).start);
    }
    void release(uint32_t thread) { frame_free(blocks[thread], {FAMILY_MALLOC, false, false, 0, 0}); }

    void *blocks[THREADS_MAX] = {};
    litmus::Hand<char *> starts[THREADS_MAX];
};

} // namespace

// ring_take (release of the list's head) and the next ring_take (acquire), which walks the rings; also quarantine_holds
// (acquire), which reads a ring while its thread may change it.
TEST_F(LitmusQuarantine, ANewRing)
{
    bool holds = false;
    litmus::in_order({
                         [&] { release(0); },
                         [&] { release(1); },
                         [&] { holds = quarantine_holds(starts[0].take()) && quarantine_holds(starts[1].take()); },
                     },
                     {[this](uint32_t thread) { prepare(thread); }});
    EXPECT_TRUE(holds);
}

// A thread's end (release of the ring) and ring_claim (acquire): the ring that the thread leaves.
TEST_F(LitmusQuarantine, TheRingOfAThreadThatHasEnded)
{
    litmus::Hand<pid_t> first;
    bool holds = false;
    litmus::in_order({
                         [&] {
                             release(0);
                             first.give(static_cast<pid_t>(syscall(SYS_gettid)));
                         },
                         [&] {
                             while (syscall(SYS_tgkill, getpid(), first.take(), 0) == 0) usleep(1000);
                             release(1);
                             holds = quarantine_holds(starts[1].take());
                         },
                     },
                     {[this](uint32_t thread) { prepare(thread); }, true});
    EXPECT_TRUE(holds);
}
