// guard_report_test.cc: free and realloc of bad pointers into the range of sampled blocks, and what is known of an
// address there.
#include "guard/guard_test_support.h"

#include <setjmp.h>

extern "C" {
#include "debug/describe.h"
#include "guard/guard_report.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/os_fault.h"
}

namespace {

using test::as_bytes;

sigjmp_buf survived;

class GuardReport : public test::GuardTest {
  protected:
    static void expect_abort(uint32_t slots, const char *said, const std::function<void()> &body)
    {
        fflush(stdout);
        testing::internal::CaptureStderr();
        pid_t child = fork();
        if (child == 0) {
            if (!guard_start(slots)) _exit(2);
            body();
            _exit(1);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        const std::string text = testing::internal::GetCapturedStderr();
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << "status " << status;
        EXPECT_EQ(text.find(std::string("hakmem: guard: free or realloc ") + said), 0u) << text;
    }
};

} // namespace

TEST_F(GuardReport, MisuseEndsTheProcess)
{
    expect_abort(2, "once more, ", [] {
        void *block = guard_alloc(100);
        hak_free(block);
        hak_free(block);
    });
    expect_abort(2, "of a pointer that is no block's start, ", [] { hak_free(as_bytes(guard_alloc(100)) + 16); });
    expect_abort(2, "of a pointer that is no block's start, ", [] { hak_free(as_bytes(guard_alloc(100)) + 112); });
    expect_abort(2, "of a pointer that is no block's start, ",
                 [] { hak_free(as_bytes(guard_alloc(100)) - 4096); }); // before the first slot
    expect_abort(2, "of a pointer that is no block's start, ",
                 [] { hak_free(as_bytes(guard_alloc(100)) + 40000); }); // behind the last slot
    expect_abort(8, "of a pointer that is no block's start, ",
                 [] { // there too, whatever lies behind the slots' records: here the queue of free ones, 2, 1, 0 ...
                     void *blocks[8];
                     for (void *&block : blocks) block = guard_alloc(16);
                     for (int i : {2, 1, 0, 3, 4, 5, 6, 7}) hak_free(blocks[i]);
                     hak_free(as_bytes(blocks[7]) + 2 * os_page_bytes());
                 });
    expect_abort(2, "once more, ", [] {
        void *block = guard_alloc(100);
        hak_free(block);
        hak_realloc(block, 100);
    });
}

// The process survives the abort, as it may if its own handler jumps out of it.
TEST_F(GuardReport, WhatWasMisusedIsKnownUntilTheHandlerIsDone)
{
    with(2, 0, [] {
        struct sigaction action = {};
        action.sa_handler = [](int) { siglongjmp(survived, 1); };
        ASSERT_EQ(sigaction(SIGABRT, &action, nullptr), 0);
        guard_history history;
        EXPECT_FALSE(guard_misuse(&history));
        void *block = guard_alloc(100);
        hak_free(block);
        if (sigsetjmp(survived, 1) == 0) hak_free(block);
        ASSERT_TRUE(guard_misuse(&history));
        EXPECT_EQ(history.address, (uint64_t)(uintptr_t)block);
        EXPECT_EQ(history.finding, RECORD_FINDING_freed_twice);
        EXPECT_EQ(history.state, RECORD_STATE_freed);
        test::in_thread([] {
            guard_history other;
            EXPECT_FALSE(guard_misuse(&other));
            guard_misuse_forget();
        });
        EXPECT_TRUE(guard_misuse(&history));
        guard_misuse_forget();
        EXPECT_FALSE(guard_misuse(&history));
    });
}

// A wild write may hit the slots' records. A report must then not read frames that do not exist.
TEST_F(GuardReport, AWildWriteHasHitTheRecords)
{
    const char *behind = static_cast<char *>(meta_alloc(64)); // the records lie behind this
    with(2, 0, [behind] {
        constexpr uint32_t size_bytes = 1237;
        void *block = guard_alloc(size_bytes);
        guard_history history;
        ASSERT_TRUE(guard_find((uint64_t)(uintptr_t)block, &history));
        EXPECT_EQ(history.size_bytes, size_bytes);
        const guard_event allocated = history.allocated;
        ASSERT_GT(allocated.count, 0u);
        uint32_t hits = 0;
        for (const char *at = behind; at < behind + 4096; at += sizeof(uint32_t)) {
            if (memcmp(at, &allocated, sizeof allocated) != 0) continue;
            auto *event = reinterpret_cast<guard_event *>(const_cast<char *>(at));
            event[0].count = GUARD_FRAMES + 1; // allocated
            event[1].count = UINT32_MAX; // freed
            hits++;
        }
        ASSERT_EQ(hits, 1u);
        ASSERT_TRUE(guard_find((uint64_t)(uintptr_t)block, &history));
        EXPECT_EQ(history.size_bytes, size_bytes);
        EXPECT_EQ(history.allocated.thread, allocated.thread);
        EXPECT_EQ(history.allocated.count, 0u);
        EXPECT_EQ(history.freed.count, 0u);
    });
}

TEST_F(GuardReport, WhatIsSaidWhereNoBlockHasBeen)
{
    guard_history history = {};
    history.address = 0x1000;
    history.finding = RECORD_FINDING_past_end;
    testing::internal::CaptureStderr();
    guard_say(&history);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "hakmem: guard: a read or write at 0x0000000000001000, where no block has been\n");
}

TEST_F(GuardReport, WhatIsSaidOfAnAddress)
{
    with(3, 0, [] {
        char *first = as_bytes(guard_alloc(100)), *second = as_bytes(guard_alloc(4096));
        auto say = [](const char *address) {
            describe_place place;
            guard_history history;
            EXPECT_TRUE(describe_address((uint64_t)(uintptr_t)address, &place));
            EXPECT_TRUE(guard_find((uint64_t)(uintptr_t)address, &history));
            EXPECT_EQ(place.kind, (uint64_t)RECORD_KIND_guard);
            EXPECT_EQ(place.block_start, history.start);
            EXPECT_EQ(place.state, (uint64_t)history.state);
            EXPECT_EQ(place.offset, place.block_start == 0 ? 0 : (uint64_t)(uintptr_t)address - place.block_start);
            return history;
        };
        auto start = [](const char *block) { return (uint64_t)(uintptr_t)block; };
        guard_history at = say(first + 99);
        EXPECT_EQ(at.start, start(first));
        EXPECT_EQ(at.size_bytes, 100u);
        EXPECT_EQ(at.finding, RECORD_FINDING_none);
        EXPECT_EQ(at.state, RECORD_STATE_live);
        EXPECT_EQ(at.allocated.thread, (uint32_t)gettid());
        EXPECT_GT(at.allocated.count, 1u);
        EXPECT_EQ(at.freed.thread, 0u);
        EXPECT_EQ(say(first).finding, RECORD_FINDING_none);
        EXPECT_EQ(say(first - 1).finding, RECORD_FINDING_before);
        EXPECT_EQ(say(first + 100).finding, RECORD_FINDING_past_end);
        EXPECT_EQ(say(first + 112).finding, RECORD_FINDING_past_end);
        EXPECT_EQ(say(first + 112).start, start(first));
        at = say(second - 1); // between two slots: the nearer one
        EXPECT_EQ(at.start, start(second));
        EXPECT_EQ(at.finding, RECORD_FINDING_before);
        const char *middle = second - (second - (first + 100)) / 2;
        EXPECT_EQ(say(middle).start, start(second)) << "as near to both: the later one";
        EXPECT_EQ(say(middle - 1).start, start(first));
        EXPECT_EQ(say(first - os_page_bytes()).start, start(first)) << "no slot is before it";
        hak_free(first);
        EXPECT_EQ(say(first).finding, RECORD_FINDING_use_after);
        at = say(first + 8);
        EXPECT_EQ(at.finding, RECORD_FINDING_use_after);
        EXPECT_EQ(at.state, RECORD_STATE_freed);
        EXPECT_EQ(at.freed.thread, (uint32_t)gettid());
        EXPECT_GT(at.freed.count, 1u);
        os_fault_install(1, true);
        EXPECT_EQ(guard_alloc(64), nullptr); // it had the third slot
        EXPECT_EQ(guard_alloc(64), nullptr); // it had the first, of which the old block is still known
        os_fault_remove();
        EXPECT_EQ(say(first + 8).state, RECORD_STATE_freed);
        at = say(second + 2 * os_page_bytes()); // a slot that no block has had
        EXPECT_EQ(at.start, 0u);
        EXPECT_EQ(at.slot, 2u);
        void *third = guard_alloc(64), *again = guard_alloc(64);
        at = say(as_bytes(again));
        EXPECT_EQ(at.slot, 0u);
        EXPECT_EQ(at.freed.thread, 0u) << "the block before it was freed, this one was not";
        EXPECT_EQ(at.freed.count, 0u);
        hak_free(third);
        hak_free(again);
        guard_history none;
        for (uint64_t address : {(uint64_t)0, (uint64_t)8, start(second) + (1u << 30), UINT64_MAX, (uint64_t)1 << 63})
            EXPECT_FALSE(guard_find(address, &none)) << address;
        hak_free(second);
    });
}
