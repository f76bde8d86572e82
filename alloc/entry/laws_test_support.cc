// laws_test_support.cc: laws of the heap and of the process that hold after each unit test, whatever the test does. A
// test begins and ends with the caches given up (hak_purge_all); what it did not give back then is a leak. The figures
// are those of the heap's books, and of what the system was asked for: a table of os_ops counts address space on its
// way to the real one.
#include "base/test_support.h"

#include <optional>

#include "hakmem/hakmem.h"
#include "hakmem/validate.h"

extern "C" {
#include "base/config.h"
#include "cache/tcache.h"
#include "guard/guard.h"
#include "os/os.h"
#include "slab/owner.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"
}

namespace {

// --- what the system was asked for ---

std::atomic<size_t> reserved_bytes;
std::atomic<size_t> slice_bytes; // of them, of the page map: one PAGE_BYTES for each GiB of addresses, for good
const os_ops *below;
os_ops counting;

void *count_reserve(void *at, size_t size_bytes, size_t align_bytes)
{
    void *start = below->reserve(at, size_bytes, align_bytes);
    if (start != nullptr) reserved_bytes += size_bytes;
    if (start != nullptr && at != nullptr && size_bytes == PAGE_BYTES) slice_bytes += size_bytes;
    return start;
}

void *count_map(void *at, size_t size_bytes, size_t align_bytes)
{
    void *start = below->map(at, size_bytes, align_bytes);
    if (start != nullptr) reserved_bytes += size_bytes;
    return start;
}

int count_commit(void *start, size_t size_bytes)
{
    EXPECT_NE(start, nullptr) << "commit of a range that was not reserved";
    return below->commit(start, size_bytes);
}

int count_release(void *start, size_t size_bytes)
{
    EXPECT_NE(start, nullptr) << "release of a range that was not reserved";
    int error = below->release(start, size_bytes);
    if (error == 0) reserved_bytes -= size_bytes;
    return error;
}

int count_grow(void *start, size_t old_bytes, size_t new_bytes)
{
    int error = below->grow(start, old_bytes, new_bytes);
    if (error == 0) reserved_bytes += new_bytes - old_bytes;
    return error;
}

int count_move(void *start, size_t old_bytes, void *target, size_t new_bytes)
{
    int error = below->move(start, old_bytes, target, new_bytes);
    if (error == 0) reserved_bytes -= old_bytes; // the target was reserved before
    return error;
}

// --- what the books say ---

// hak_purge_all has run: no cache holds anything.
struct Books {
    hak_stats stats = {};
    size_t held_heaps = 0, used_bytes = 0, committed_bytes = 0, made_superslabs = 0, beside_bytes = 0;
    size_t limit_bytes = limit_get(), limit_soft_bytes = limit_soft_get();
    uint32_t delay_ms = purge_delay_ms(), sampled_blocks = guard_figures().live;
    const os_ops *table = os;
    hak_sync_point_fn *sync_point = hak_sync_point_hook;
    hak_clock_fn *clock = VALIDATE ? hak_clock_hook : nullptr;

    Books()
    {
        hak_purge_all();
        hak_stats_get(&stats);
        held_heaps = stats.heap_count - stats.orphan_count;
        for (uint32_t id = 1; id <= owner_count(); id++)
            if (owner *each = owner_with_id(id)) used_bytes += owner_used_bytes(each);
        committed_bytes = limit_committed_bytes();
        made_superslabs = pool_figures().made_count;
        beside_bytes = reserved_bytes - slice_bytes - stats.reserved_bytes;
    }
};

// Address space that the allocator's descriptors may take when there are this many more heaps and superslabs. Those of huge blocks
// come from the ranges that the others leave. The allowance is below the least that a lost mapping takes.
size_t descriptors_bytes_max(size_t heaps, size_t superslabs)
{
    return RUN_BYTES_MAX - PAGE_BYTES + heaps * sizeof(heap) * 2 + superslabs * sizeof(superslab) * 16;
}

// Tests that leave something for good, and why.
enum Leaves { DESCRIPTORS = 1, HEAPS = 2, BLOCKS = 4 };
constexpr struct {
    const char *suite;
    int leaves;
} EXCEPTIONS[] = {
    {"Meta", DESCRIPTORS}, // descriptors are never given back
    {"Owner", HEAPS}, // owners that no thread holds
    {"LitmusOwner", HEAPS},   {"LitmusQuarantine", BLOCKS}, // freed blocks wait in the quarantine
    {"LitmusReport", BLOCKS},
};

bool leaves(const testing::TestInfo &test, Leaves what)
{
    return std::any_of(std::begin(EXCEPTIONS), std::end(EXCEPTIONS), [&](const auto &each) {
        return (each.leaves & what) != 0 && strcmp(each.suite, test.test_suite_name()) == 0;
    });
}

// A visitor finds the thread's heap open.
void expect_open()
{
    EXPECT_EQ(tcache_self()->busy, 0u) << "a call left the heap closed to visitors";
}

class HeapLaws : public testing::EmptyTestEventListener {
    void OnTestProgramStart(const testing::UnitTest &) override
    {
        below = os;
        counting = *os;
        counting.reserve = count_reserve;
        counting.map = count_map;
        counting.commit = count_commit;
        counting.release = count_release;
        counting.grow = count_grow;
        counting.move = count_move;
        os = &counting;
    }
    void OnTestStart(const testing::TestInfo &) override { before_.emplace(); }
    void OnTestEnd(const testing::TestInfo &test) override
    {
        expect_open();
        Books after;
        const hak_stats &now = after.stats, &then = before_->stats;
        const char *name = test.name();
        if (!leaves(test, BLOCKS)) EXPECT_EQ(now.small_bytes, then.small_bytes) << name << " left blocks of slabs";
        EXPECT_EQ(now.run_bytes, then.run_bytes) << name << " left runs";
        EXPECT_EQ(now.huge_count, then.huge_count) << name << " left huge blocks";
        EXPECT_EQ(now.huge_bytes, then.huge_bytes) << name << " left huge blocks";
        EXPECT_EQ(now.huge_cached_bytes, 0u) << name << ": cached mappings outlive a purge of everything";
        EXPECT_EQ(now.dirty_bytes, 0u) << name << ": free pages keep memory after a purge of everything";
        EXPECT_EQ(after.sampled_blocks, before_->sampled_blocks) << name << " left sampled blocks";
        EXPECT_EQ(after.used_bytes, now.small_bytes) << name << ": owners and slabs disagree";
        EXPECT_EQ(after.committed_bytes, now.slab_bytes + now.run_bytes + now.huge_bytes) << name << ": limit.c";
        EXPECT_LE(now.slab_bytes, then.slab_bytes + CLASS_COUNT * 8 * size_t{PAGE_BYTES}) << name << " left slabs";
        if (!leaves(test, HEAPS))
            EXPECT_LE(after.held_heaps, before_->held_heaps + 1) << name << " left a heap that nobody holds";

        size_t more = after.beside_bytes - before_->beside_bytes;
        size_t heaps = now.heap_count - then.heap_count, superslabs = after.made_superslabs - before_->made_superslabs;
        if (!leaves(test, DESCRIPTORS))
            EXPECT_LE(more, descriptors_bytes_max(heaps, superslabs))
                << name << " left " << static_cast<long long>(more) << " bytes of address space that no book knows";

        EXPECT_EQ(after.limit_bytes, before_->limit_bytes) << name << " left a limit";
        EXPECT_EQ(after.limit_soft_bytes, before_->limit_soft_bytes) << name << " left a limit";
        EXPECT_EQ(after.delay_ms, before_->delay_ms) << name << " left another delay";
        EXPECT_EQ(after.table, before_->table) << name << " left another table of calls to the system";
        EXPECT_EQ(after.sync_point, before_->sync_point) << name << " left a hook";
        EXPECT_EQ(after.clock, before_->clock) << name << " left a clock";

        hak_inspect_report report;
        EXPECT_TRUE(hak_inspect(&report)) << name << ": " << report.broken_law << " at " << report.address;
        EXPECT_EQ(report.pending_blocks, 0u) << name;
    }
    std::optional<Books> before_;
};

[[maybe_unused]] const bool laws_are_asked = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new HeapLaws);
    test::at_child_end = expect_open;
    return true;
}();

} // namespace
