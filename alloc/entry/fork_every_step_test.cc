// fork_every_step_test.cc: a child is forked at every step of every public function: after each write to memory that
// another thread makes inside it. The child has all blocks and heaps, uses and frees them, and its heap obeys the laws.
// ci/lint/lists compares the names with the headers.
//
// By default about every seventh step, and of calls with many steps fewer and fewer; the seed decides where it begins.
// HAKMEM_TEST_STRIDE=1, by night: each step, and also the functions that take long.
#include "os/step_test_support.h"
#include "heap/own_test_support.h"

#include <fcntl.h>

#include "hakmem/crash.h"

extern "C" {
#include "guard/guard.h"
#include "profile/sampler.h"
#include "heap/own_inside.h"
#include "os/libc.h"
}

namespace fork_every_step { // other tests of this program have some of the names
namespace {

using test::MIB;
using test::OwnHeld;

extern "C" const char __executable_start[];

hak_heap *shared; // of the program's own: the thread and the child use it
hak_heap *passing; // only the thread uses it
void *got[4]; // blocks of the thread's, freed in the end
std::vector<OwnHeld> held; // live: of the forking thread, of a thread that sleeps, and of `shared`
FILE *nowhere;
int nowhere_fd;
hak_figures figures;
hak_stats stats;

void start()
{
    hak_free(hak_malloc(100)); // the thread takes a heap
}

void give_got()
{
    for (void *&each : got) {
        hak_free(each);
        each = nullptr;
    }
}

template <size_t SIZE> void get()
{
    start();
    for (void *&each : got) each = hak_malloc(SIZE);
}

template <size_t SIZE> void get_of_heap()
{
    start();
    for (void *&each : got) each = hak_heap_malloc(shared, SIZE);
}

void make_passing()
{
    start();
    passing = hak_heap_new();
    for (size_t size : {40u, 40u, 3000u, 100000u, 3u << 20}) hak_heap_malloc(passing, size);
}

void end_passing()
{
    hak_heap_destroy(passing);
    passing = nullptr;
}

void set_limit()
{
    start();
    hak_purge_all();
    hak_figures_get(&figures, sizeof figures);
    hak_limit_callback([](size_t, void *) { return false; }, nullptr);
    hak_limit_set(figures.committed_bytes + MIB);
}

void end_limit()
{
    hak_limit_callback(nullptr, nullptr);
    hak_limit_set(SIZE_MAX);
    hak_limit_soft_set(SIZE_MAX);
    hak_heap_limit_set(shared, SIZE_MAX);
    give_got();
}

enum When { PLAIN, SAMPLED /* by default also while blocks are sampled */, LONG /* only by night */ };

// The thread runs `before` and `after` without stops. left_out: why a function is not stepped through.
const struct Row {
    const char *function;
    void (*before)();
    void (*work)();
    void (*after)();
    When when = PLAIN;
    const char *left_out = nullptr;
} CALLS[] = {
    {"hak_version", start, [] { hak_version(); }, give_got},
    {"hak_malloc", nullptr, [] { got[0] = hak_malloc(40); }, give_got}, // the thread's first
    {"hak_malloc", start, [] { got[0] = hak_malloc(700), got[1] = hak_malloc(20000); }, give_got, SAMPLED},
    {"hak_malloc", start, [] { got[0] = hak_malloc(100000); }, give_got, SAMPLED},
    {"hak_malloc", start, [] { got[0] = hak_malloc(3 * MIB); }, give_got},
    {"hak_malloc", set_limit, [] { got[0] = hak_malloc(300000), got[1] = hak_malloc(3 * MIB); }, end_limit},
    {"hak_calloc", start, [] { got[0] = hak_calloc(3, 100), got[1] = hak_calloc(1, 100000); }, give_got},
    {"hak_realloc", get<3000>, [] { got[0] = hak_realloc(got[0], 200), got[1] = hak_realloc(got[1], 80000); }, give_got,
     SAMPLED},
    {"hak_realloc", get<200000>, [] { got[0] = hak_realloc(got[0], 300000), got[1] = hak_realloc(got[1], 70000); },
     give_got},
    {"hak_realloc", get<3 * MIB>, [] { got[0] = hak_realloc(got[0], 9 * MIB); }, give_got},
    {"hak_reallocarray", get<100>, [] { got[0] = hak_reallocarray(got[0], 2, 100); }, give_got},
    {"hak_free", get<700>, give_got, give_got, SAMPLED},
    {"hak_free", get<20000>, give_got, give_got},
    {"hak_free", get<100000>, give_got, give_got, SAMPLED},
    {"hak_free", get<3 * MIB>, give_got, give_got, SAMPLED},
    {"hak_free", get_of_heap<40>, give_got, give_got},
    {"hak_free", get_of_heap<20000>, give_got, give_got},
    {"hak_free", get_of_heap<100000>, give_got, give_got},
    {"hak_free", get_of_heap<3 * MIB>, give_got, give_got},
    {"hak_free_sized", get<100>, [] { hak_free_sized(got[0], 100), got[0] = nullptr; }, give_got},
    {"hak_free_aligned_sized", [] { got[0] = hak_aligned_alloc(64, 100); },
     [] { hak_free_aligned_sized(got[0], 64, 100), got[0] = nullptr; }, give_got},
    {"hak_aligned_alloc", start, [] { got[0] = hak_aligned_alloc(4096, 100), got[1] = hak_aligned_alloc(MIB, MIB); },
     give_got},
    {"hak_memalign", start, [] { got[0] = hak_memalign(48, 100); }, give_got},
    {"hak_posix_memalign", start, [] { hak_posix_memalign(&got[0], 64, 100); }, give_got},
    {"hak_valloc", start, [] { got[0] = hak_valloc(100); }, give_got},
    {"hak_pvalloc", start, [] { got[0] = hak_pvalloc(100); }, give_got},
    {"hak_malloc_usable_size", get<100>, [] { hak_malloc_usable_size(got[0]); }, give_got},
    {"hak_purge", get<3000>, [] { give_got(), hak_purge(); }, give_got},
    {"hak_purge_all", get_of_heap<3000>, [] { give_got(), hak_purge_all(); }, give_got},
    {"hak_background", nullptr, nullptr, nullptr, PLAIN, "not to be called while another thread forks"},
    {"hak_stats_get", start, [] { hak_stats_get(&stats); }, give_got, LONG},
    {"hak_figures_get", start, [] { hak_figures_get(&figures, sizeof figures); }, give_got, LONG},
    {"hak_stats_write", start, [] { hak_stats_write(nowhere_fd, HAKMEM_STATS_TEXT); }, give_got, LONG},
    {"hak_stats_print", start, [] { hak_stats_print(nowhere); }, give_got, LONG},
    {"hak_limit_set", start, [] { hak_limit_set(SIZE_MAX / 2); }, end_limit},
    {"hak_limit_get", start, [] { hak_limit_get(); }, give_got},
    {"hak_limit_soft_set", start, [] { hak_limit_soft_set(MIB), got[0] = hak_malloc(100000), give_got(); }, end_limit},
    {"hak_limit_soft_get", start, [] { hak_limit_soft_get(); }, give_got},
    {"hak_limit_callback", start, [] { hak_limit_callback([](size_t, void *) { return false; }, nullptr); }, end_limit},
    {"hak_good_size", start, [] { hak_good_size(100); }, give_got},
    {"hak_malloc_at_least", start, [] { got[0] = hak_malloc_at_least(100).block; }, give_got},
    {"hak_defrag_hint", get<100>, [] { hak_defrag_hint(got[0]); }, give_got},
    {"hak_defrag_move", get<100>,
     [] {
         void *moved = hak_defrag_move(got[0]);
         if (moved != nullptr) got[0] = moved;
     },
     give_got},
    {"hak_heap_new", start, [] { passing = hak_heap_new(); }, end_passing},
    {"hak_heap_malloc", start, [] { got[0] = hak_heap_malloc(shared, 40), got[1] = hak_heap_malloc(shared, 9000); },
     give_got},
    {"hak_heap_malloc", start, [] { got[0] = hak_heap_malloc(shared, 100000); }, give_got},
    {"hak_heap_malloc", start, [] { got[0] = hak_heap_malloc(shared, 3 * MIB); }, give_got},
    {"hak_heap_calloc", start, [] { got[0] = hak_heap_calloc(shared, 3, 100); }, give_got},
    {"hak_heap_aligned_alloc", start, [] { got[0] = hak_heap_aligned_alloc(shared, 65536, 100); }, give_got},
    {"hak_heap_realloc", get_of_heap<700>, [] { got[0] = hak_heap_realloc(shared, got[0], 900); }, give_got},
    {"hak_heap_realloc", get_of_heap<200000>,
     [] {
         got[0] = hak_heap_realloc(shared, got[0], 300000);
         got[1] = hak_heap_realloc(shared, got[1], 70000);
     },
     give_got},
    {"hak_heap_realloc", get_of_heap<3 * MIB>,
     [] {
         got[0] = hak_heap_realloc(shared, got[0], 9 * MIB);
         got[1] = hak_heap_realloc(shared, got[1], 70000);
     },
     give_got},
    {"hak_heap_realloc", get<40000>, [] { got[0] = hak_heap_realloc(shared, got[0], 3 * MIB); }, give_got},
    {"hak_heap_free_all", make_passing, [] { hak_heap_free_all(passing); }, end_passing},
    {"hak_heap_destroy", make_passing, [] { hak_heap_destroy(passing); }, give_got},
    {"hak_heap_limit_set", start, [] { hak_heap_limit_set(shared, MIB), got[0] = hak_heap_malloc(shared, MIB); },
     end_limit},
    {"hak_heap_limit_get", start, [] { hak_heap_limit_get(shared); }, give_got},
    {"hak_heap_figures_get", start,
     [] {
         hak_heap_figures of_heap;
         hak_heap_figures_get(shared, &of_heap, sizeof of_heap);
     },
     give_got},
    {"hak_profile_start", start, [] { hak_profile_start(4096); }, hak_profile_stop, LONG}, // its tables are made
    {"hak_profile_start", start, [] { hak_profile_start(256); }, give_got, SAMPLED},
    {"hak_profile_stop", start, [] { hak_profile_stop(); }, give_got, SAMPLED},
    {"hak_profile_dump", start, [] { hak_profile_dump("/dev/null"); }, give_got, LONG},
    {"hak_crash_handler_install", start, [] { hak_crash_handler_install("/tmp"); }, hak_crash_handler_remove, LONG},
    {"hak_crash_handler_remove", [] { hak_crash_handler_install("/tmp"); }, [] { hak_crash_handler_remove(); },
     give_got},
    {"hak_crash_context", start, [] { hak_crash_context(nullptr); }, give_got},
};

// --- what the child does -------------------------------------------------------------------------------------------

void expect_held(const std::vector<OwnHeld> &blocks)
{
    for (const OwnHeld &each : blocks) EXPECT_TRUE(each.holds()) << each.size << " bytes at " << each.block;
}

void use_heap(hak_heap *heap)
{
    std::vector<OwnHeld> mine;
    for (size_t size : {16u, 40u, 700u, 3000u, 9000u, 20000u, 100000u, 200000u, 3u << 20}) {
        mine.push_back({hak_heap_malloc(heap, size), size, size});
        ASSERT_NE(mine.back().block, nullptr);
        mine.back().fill();
    }
    expect_held(mine);
    for (OwnHeld &each : mine) {
        each.block = hak_heap_realloc(heap, each.block, each.size + each.size / 4);
        ASSERT_NE(each.block, nullptr);
    }
    expect_held(mine);
    for (size_t i = 0; i < mine.size(); i += 2) hak_free(mine[i].block);
    const hak_heap_figures now = test::own_figures_of(heap);
    EXPECT_GE(now.resident_bytes, now.used_bytes);
    EXPECT_EQ(hak_heap_limit_get(heap), SIZE_MAX);
}

// Another thread was changing its heap at the fork. The child does not touch that heap, so its books may be wrong.
bool is_one_left_alone()
{
    for (uint32_t id = 1; id <= owner_count(); id++) {
        struct owner *owner = owner_with_id(id);
        if (owner != nullptr && !owner_is_orphan(owner) && reinterpret_cast<struct heap *>(owner)->tcache == nullptr)
            return true;
    }
    return false;
}

// Laws that a child cannot keep: those of such a heap, and of pages that the other thread was taking or giving back.
bool may_be_broken(const char *law)
{
    for (const char *of_pages : {"law 6: a page in use has a tag", "law 9: pages in use", "law 9: free dirty pages",
                                 "law 9: pages of runs", "law 9: superslabs"})
        if (strcmp(law, of_pages) == 0) return true;
    return is_one_left_alone();
}

void use_everything(bool with_thread)
{
    hak_limit_callback(nullptr, nullptr);
    hak_limit_set(SIZE_MAX);
    hak_limit_soft_set(SIZE_MAX);
    hak_heap_limit_set(shared, SIZE_MAX);
    expect_held(held);
    use_heap(shared);
    test::use_all_kinds_of_sizes(1);
    if (with_thread) test::in_thread([] { test::use_all_kinds_of_sizes(1); });
    hak_heap *fresh = hak_heap_new();
    use_heap(fresh);
    expect_held(held);
    hak_heap_destroy(fresh);
    for (const OwnHeld &each : held) hak_free(each.block);
    hak_heap_destroy(shared);
    EXPECT_EQ(hak_profile_dump("/dev/null"), 0);
    hak_purge_all();
    hak_inspect_report report;
    if (!hak_inspect(&report)) EXPECT_TRUE(may_be_broken(report.broken_law)) << report.broken_law;
    hak_figures_get(&figures, sizeof figures);
    // What the other thread was mapping or unmapping may be lost. No figure has gone below 0.
    for (uint64_t bytes : {figures.committed_bytes, figures.mapped_bytes, figures.used_bytes, figures.dirty_bytes})
        EXPECT_LT(bytes, size_t{1} << 30);
}

// --- the other threads ---------------------------------------------------------------------------------------------

// A thread that sleeps, with full caches, and has freed blocks that it has not handed over.
class Sleeper {
  public:
    Sleeper()
    {
        for (int i = 0; i < 5; i++) others_.push_back(hak_malloc(512));
        thread_ = std::thread([this] {
            for (size_t size : {40u, 700u, 20000u, 100000u, 3u << 20}) {
                held.push_back({hak_malloc(size), size, size + 1});
                held.back().fill();
                hak_free(hak_malloc(size));
            }
            for (void *block : others_) hak_free(block);
            sleeps_ = true;
            sleeps_.notify_one();
            ends_.wait(false);
        });
        sleeps_.wait(false);
    }
    ~Sleeper()
    {
        ends_ = true;
        ends_.notify_one();
        thread_.join();
    }

  private:
    std::vector<void *> others_;
    std::atomic<bool> sleeps_ = false, ends_ = false;
    std::thread thread_;
};

uint64_t stride_asked()
{
    const char *text = getenv("HAKMEM_TEST_STRIDE");
    return text != nullptr ? std::max<uint64_t>(1, strtoull(text, nullptr, 10)) : 7;
}

std::vector<test::Span> watched()
{
    struct tcache *self = tcache_self();
    return {
        {self, sizeof *self}, {shared, sizeof *shared}, {self->heap, self->heap != nullptr ? sizeof(struct heap) : 0}};
}

void fork_at_each_step(const Row &row, uint64_t first, test::StepCounts &sum)
{
    const std::function<void()> before = row.before != nullptr ? row.before : [] {};
    const test::Stepped stepped = {before, row.work, row.after, stride_asked(), first % stride_asked(), watched};
    const test::StepCounts counts = test::step_through(stepped, [&](uint64_t write, uintptr_t code) {
        if (testing::Test::HasFailure()) return; // children would have it too
        EXPECT_TRUE(test::in_child([&] { use_everything(write % 4 == 0); }, 60))
            << row.function << ", after write " << write << ", before the code at " << std::hex
            << code - (uintptr_t)__executable_start << " of the program";
    });
    EXPECT_EQ(counts.missed, 0u) << row.function << ": a write that was not seen";
    printf("%-28s %6llu instructions, %4llu writes, %4llu forks\n", row.function,
           (unsigned long long)counts.instructions, (unsigned long long)counts.writes,
           (unsigned long long)counts.stops);
    sum.instructions += counts.instructions;
    sum.writes += counts.writes;
    sum.stops += counts.stops;
}

bool is_due(const Row &row, bool sampled)
{
    const char *only = getenv("HAKMEM_TEST_FUNCTION");
    if (row.left_out != nullptr || (only != nullptr && strcmp(only, row.function) != 0)) return false;
    return stride_asked() == 1 || row.when == SAMPLED || (row.when == PLAIN && !sampled);
}

void fork_at_each_step_of_all(bool sampled)
{
    nowhere = fopen("/dev/null", "w");
    nowhere_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    shared = hak_heap_new();
    Sleeper sleeper;
    for (size_t size : {40u, 700u, 3000u, 20000u, 100000u, 3u << 20})
        for (bool of_heap : {false, true}) {
            held.push_back({of_heap ? hak_heap_malloc(shared, size) : hak_malloc(size), size, size});
            held.back().fill();
            hak_free(of_heap ? hak_heap_malloc(shared, size) : hak_malloc(size));
        }
    test::Rng rng;
    test::StepCounts sum = {};
    for (const Row &row : CALLS)
        if (is_due(row, sampled) && !testing::Test::HasFailure()) fork_at_each_step(row, rng.next(), sum);
    printf("%llu instructions, %llu writes, %llu forks\n", (unsigned long long)sum.instructions,
           (unsigned long long)sum.writes, (unsigned long long)sum.stops);
    EXPECT_GT(sum.stops, 0u) << "nothing was forked: no such HAKMEM_TEST_FUNCTION, or HAKMEM_TEST_STRIDE=1 is needed";
}

class ForkEveryStep : public testing::Test {
  protected:
    void SetUp() override
    {
        SKIP_UNDER_SANITIZER("its threads and locks are not those of the child");
        if (const char *lacks = test::stepping_lacks()) GTEST_SKIP() << lacks;
    }
};

} // namespace

TEST_F(ForkEveryStep, OfEachFunction)
{
    EXPECT_TRUE(test::in_child([] { fork_at_each_step_of_all(false); }, 3000));
}

// As above, with each block that may be sampled in a guard's slot or in the heap profile.
TEST_F(ForkEveryStep, OfEachFunctionWhileBlocksAreSampled)
{
    if (VALIDATE) GTEST_SKIP() << "the debug-validation build samples nothing";
    EXPECT_TRUE(test::in_child(
        [] {
            void *frame;
            os_backtrace(&frame, 1); // the unwinder may allocate at its first use
            start();
            ASSERT_TRUE(guard_start(256));
            sampling_guard_set(2);
            ASSERT_EQ(hak_profile_start(256), 0);
            fork_at_each_step_of_all(true);
        },
        3000));
}

} // namespace fork_every_step
