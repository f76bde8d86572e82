// backing_test.cc: memory that is faulted in at start, and huge pages behind full superslabs. Each test changes settings of
// the process, so it runs in a child.
#include "base/test_support.h"

#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/syscall.h>

extern "C" {
#include "os/os.h"
#include "os/os_fault.h"
#include "superslab/backing.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

using test::MIB;

constexpr uint64_t AHEAD_MS = 3600 * 1000; // of the real clock, which must not overtake a test on a busy machine
uint64_t clock_ms = os_now_ms() + AHEAD_MS;

void tick()
{
    clock_ms += PURGE_DELAY_MS;
    EXPECT_TRUE(pool_tick(clock_ms));
}

// The next round, and those that follow while the system is busy with a page and refuses.
void tick_until_collapsed(size_t superslabs)
{
    for (int round = 0; round < 50 && (round == 0 || backing_collapsed() < superslabs); round++) tick();
    EXPECT_EQ(backing_collapsed(), superslabs);
}

constexpr char NO_FILTER[] = "the kernel lets no process refuse calls to itself (seccomp)";

bool can_refuse_calls()
{
    return test::in_child([] { _exit(test::refuse_call(SYS_madvise, EPERM) ? 0 : 1); });
}

class Backing : public testing::Test {
  protected:
    void SetUp() override
    {
        pool_purge_all();
        clock_ms = std::max(clock_ms, os_now_ms() + AHEAD_MS);
        while (!pool_tick(clock_ms)) clock_ms += PURGE_DELAY_MS;
    }
};

long faults()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

// Touches the first `bytes` of the pages, one byte a page of the system.
void touch(const page_range &range, size_t bytes)
{
    char *start = superslab_page_start(range.superslab, &range.superslab->slabs[range.first]);
    for (size_t at = 0; at < bytes; at += os_page_bytes()) start[at] = 1;
}

// AnonHugePages of the mapping that holds an address, from smaps; in bytes.
size_t huge_bytes(const void *address)
{
    std::ifstream smaps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        uintptr_t start, end;
        size_t kib;
        if (sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)address && (uintptr_t)address < end;
        if (inside && sscanf(line.c_str(), "AnonHugePages: %zu", &kib) == 1) return kib << 10;
    }
    return 0;
}

page_range superslab_claim_whole()
{
    page_range range = pool_claim(SUPERSLAB_PAGES, 1, false);
    EXPECT_NE(range.superslab, nullptr);
    return range;
}

// Why the system makes no huge pages here; empty: it does.
std::string no_huge_pages()
{
    page_range range = superslab_claim_whole();
    touch(range, SUPERSLAB_BYTES);
    const int error = os_collapse(superslab_base(range.superslab), SUPERSLAB_BYTES);
    pool_free(range.superslab, 0, SUPERSLAB_PAGES, 8);
    pool_purge_all();
    return error == 0 ? "" : std::string("the system makes no huge pages on request: ") + strerror(error);
}

} // namespace

TEST_F(Backing, PrewarmedPagesCostNoFault)
{
    SKIP_UNDER_SANITIZER("its shadow faults too");
    EXPECT_TRUE(test::in_child([] {
        EXPECT_EQ(backing_prewarm(15 * MIB), 16 * MIB) << "whole superslabs";
        const long before = faults();
        page_range ranges[4];
        for (page_range &range : ranges) range = superslab_claim_whole();
        for (const page_range &range : ranges) touch(range, SUPERSLAB_BYTES);
        EXPECT_LT(faults() - before, 32);
        page_range fifth = superslab_claim_whole();
        touch(fifth, SUPERSLAB_BYTES);
        EXPECT_GE(faults() - before, (long)(SUPERSLAB_BYTES / os_page_bytes())) << "beyond them each page costs one";
    }));
}

TEST_F(Backing, PrewarmedPagesStayUntilPurgeAll)
{
    EXPECT_TRUE(test::in_child([] {
        const size_t pages = 16 * MIB / PAGE_BYTES;
        EXPECT_EQ(backing_prewarm(16 * MIB), 16 * MIB);
        for (int i = 0; i < 40; i++) tick();
        EXPECT_EQ(purge_dirty_pages(), pages);
        EXPECT_EQ(purge_keep_pages(), pages);
        // A burst of twice as much falls back to what was asked for, and not below it.
        page_range ranges[8];
        for (page_range &range : ranges) range = superslab_claim_whole();
        for (const page_range &range : ranges) pool_free(range.superslab, 0, SUPERSLAB_PAGES, 8);
        for (int i = 0; i < 40; i++) tick();
        EXPECT_GE(purge_dirty_pages(), pages);
        EXPECT_LE(purge_dirty_pages(), pages + SUPERSLAB_PAGES);
        pool_purge_all();
        EXPECT_EQ(purge_dirty_pages(), 0u);
        tick();
        EXPECT_EQ(purge_keep_pages(), 0u);
    }));
}

TEST_F(Backing, PrewarmStopsAtTheLimit)
{
    EXPECT_TRUE(test::in_child([] {
        limit_set(limit_committed_bytes() + 9 * MIB);
        EXPECT_EQ(backing_prewarm(64 * MIB), 8 * MIB);
        limit_set(SIZE_MAX);
        EXPECT_EQ(purge_claimed_pages(), 0u) << "all of it is free";
    }));
}

TEST_F(Backing, WhatTheSystemDoesNotFaultInIsFree)
{
    if (!can_refuse_calls()) GTEST_SKIP() << NO_FILTER;
    EXPECT_TRUE(test::in_child([] {
        ASSERT_TRUE(test::refuse_call(SYS_madvise, EPERM));
        EXPECT_EQ(backing_prewarm(64 * MIB), 0u);
        EXPECT_EQ(purge_claimed_pages(), 0u);
    }));
}

TEST_F(Backing, FullSuperslabsBecomeHugePages)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    const std::string refusal = no_huge_pages();
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    EXPECT_TRUE(test::in_child([] {
        page_range full = superslab_claim_whole(), sparse = superslab_claim_whole();
        page_range partly = pool_claim(SUPERSLAB_PAGES - 1, 1, false);
        backing_set_huge_policy(HUGE_FULL);
        touch(full, SUPERSLAB_BYTES);
        touch(sparse, SUPERSLAB_BYTES - SUPERSLAB_BYTES / 16 - os_page_bytes());
        touch(partly, SUPERSLAB_BYTES - PAGE_BYTES);
        tick();
        EXPECT_EQ(backing_collapsed(), 0u) << "full in one round only";
        tick_until_collapsed(1);
        EXPECT_GE(huge_bytes(superslab_base(full.superslab)), (size_t)SUPERSLAB_BYTES);
        EXPECT_EQ(os_resident_bytes(superslab_base(sparse.superslab), SUPERSLAB_BYTES),
                  SUPERSLAB_BYTES - SUPERSLAB_BYTES / 16 - os_page_bytes())
            << "a superslab with room costs no memory";
        touch(sparse, SUPERSLAB_BYTES - SUPERSLAB_BYTES / 16);
        tick_until_collapsed(2); // all but a sixteenth is resident
        tick();
        EXPECT_EQ(backing_collapsed(), 2u) << "each once";
        // Free for a round and full again: again, once.
        pool_free(full.superslab, 0, SUPERSLAB_PAGES, 8);
        tick();
        full = superslab_claim_whole();
        touch(full, SUPERSLAB_BYTES);
        tick();
        tick_until_collapsed(3);
    }));
}

// A refusal that may pass is tried again in the next round, another one is not.
TEST_F(Backing, WhatWasRefusedForTheMomentIsTriedAgain)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    const std::string refusal = no_huge_pages();
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    if (!can_refuse_calls()) GTEST_SKIP() << NO_FILTER;
    for (const auto &[error, again] : {std::pair{EAGAIN, 1}, {EBUSY, 1}, {ENOMEM, 0}, {EINVAL, 0}})
        EXPECT_TRUE(test::in_child([error, again] {
            touch(superslab_claim_whole(), SUPERSLAB_BYTES);
            backing_set_huge_policy(HUGE_FULL);
            tick();
            bool can = false;
            test::in_threads(1, [&](int) {
                can = test::refuse_call(SYS_madvise, error); // to this thread alone
                tick();
            });
            EXPECT_TRUE(can);
            EXPECT_EQ(backing_collapsed(), 0u);
            tick_until_collapsed(again);
        }));
}

// After a refusal for good the superslab is left alone, in the rounds after the next too.
TEST_F(Backing, WhatWasRefusedForGoodIsNotLookedAtAgain)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    if (!can_refuse_calls()) GTEST_SKIP() << NO_FILTER;
    for (int error : {ENOMEM, EINVAL})
        EXPECT_TRUE(test::in_child([error] {
            const page_range full = superslab_claim_whole();
            touch(full, SUPERSLAB_BYTES);
            ASSERT_EQ(os_resident_bytes(superslab_base(full.superslab), SUPERSLAB_BYTES), (size_t)SUPERSLAB_BYTES);
            backing_set_huge_policy(HUGE_FULL);
            ASSERT_TRUE(test::refuse_call(SYS_madvise, error));
            tick();
            const uint8_t once = full.superslab->seen_full;
            tick();
            const uint8_t refused = full.superslab->seen_full;
            EXPECT_NE(refused, once) << "it was looked at";
            for (int i = 0; i < 3; i++) {
                tick();
                EXPECT_EQ(full.superslab->seen_full, refused);
            }
        }));
}

TEST_F(Backing, OneRoundMakesAFew)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    const std::string refusal = no_huge_pages();
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    EXPECT_TRUE(test::in_child([] {
        for (int i = 0; i < HUGE_ROUND_SUPERSLABS + 1; i++) touch(superslab_claim_whole(), SUPERSLAB_BYTES);
        backing_set_huge_policy(HUGE_FULL);
        tick();
        tick();
        EXPECT_EQ(backing_collapsed(), (size_t)HUGE_ROUND_SUPERSLABS);
        tick();
        EXPECT_EQ(backing_collapsed(), (size_t)HUGE_ROUND_SUPERSLABS + 1);
    }));
}

// Superslabs that are full of memory which is not touched come first in each walk. They must not use up every round.
TEST_F(Backing, ThoseThatAreNotResidentDoNotKeepOthersFromIt)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    const std::string refusal = no_huge_pages();
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    EXPECT_TRUE(test::in_child([] {
        const page_range first = superslab_claim_whole();
        for (int i = 0; i < 2 * HUGE_ROUND_SUPERSLABS; i++) superslab_claim_whole();
        const page_range last = superslab_claim_whole();
        touch(last, SUPERSLAB_BYTES);
        backing_set_huge_policy(HUGE_FULL);
        for (int i = 0; i < 3; i++) tick();
        EXPECT_EQ(backing_collapsed(), 0u) << "two rounds look at the others";
        tick();
        EXPECT_EQ(backing_collapsed(), 1u);
        // The walk begins again: what has become resident is found.
        touch(first, SUPERSLAB_BYTES);
        for (int i = 0; i < 2; i++) tick();
        EXPECT_EQ(backing_collapsed(), 2u);
    }));
}

// A superslab is seen to be full when the heap grows; not where the system refuses to let it grow, and only as wanted.
TEST_F(Backing, OnlyANewSuperslabIsARound)
{
    EXPECT_TRUE(test::in_child([] {
        const page_range full = superslab_claim_whole();
        const auto seen = [&] { return full.superslab->seen_full != 0; };
        superslab_claim_whole();
        os_fault_install(1, true);
        while (pool_claim(SUPERSLAB_PAGES, 1, false).superslab != nullptr) {} // what other suites have left free
        EXPECT_FALSE(seen()) << "without the policy there is no round";
        backing_set_huge_policy(HUGE_FULL);
        for (int i = 0; i < 2; i++) EXPECT_EQ(pool_claim(SUPERSLAB_PAGES, 1, false).superslab, nullptr);
        os_fault_remove();
        EXPECT_FALSE(seen());
        superslab_claim_whole();
        EXPECT_TRUE(seen());
    }));
}

TEST_F(Backing, AHeapThatGrowsNeedsNoTick)
{
    SKIP_UNDER_SANITIZER("it keeps its own state of each page");
    const std::string refusal = no_huge_pages();
    if (!refusal.empty()) GTEST_SKIP() << refusal;
    EXPECT_TRUE(test::in_child([] {
        backing_set_huge_policy(HUGE_FULL);
        for (int i = 0; i < 12; i++) touch(superslab_claim_whole(), SUPERSLAB_BYTES);
        EXPECT_GE(backing_collapsed(), 9u);
    }));
}

TEST_F(Backing, WithoutThePolicyNothingIsHuge)
{
    SKIP_UNDER_SANITIZER("pages that no block lies in are poisoned");
    EXPECT_TRUE(test::in_child([] {
        page_range full = superslab_claim_whole();
        touch(full, SUPERSLAB_BYTES);
        for (int i = 0; i < 4; i++) tick();
        EXPECT_EQ(backing_collapsed(), 0u);
        EXPECT_EQ(huge_bytes(superslab_base(full.superslab)), 0u);
    }));
}
