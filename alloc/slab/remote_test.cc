// remote_test.cc: frees from other threads; law 2. More than 400 lines: all of it shares one staging table and one owner.
#include "base/test_support.h"

#include <algorithm>
#include <set>

extern "C" {
#include "base/sync_point.h"
#include "cache/tcache.h"
#include "debug/inspect.h"
#include "slab/remote.h"
#include "slab/take.h"
#include "superslab/pool.h"
}

namespace {

constexpr uint64_t QUEUED = 1;

uint32_t posted(const slab *s)
{
    return (uint32_t)(s->remote.load() >> 48);
}

class Remote : public testing::Test {
  protected:
    void SetUp() override
    {
        static struct heap *shared = [] {
            auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
            memset(static_cast<void *>(made), 0, sizeof *made);
            EXPECT_TRUE(owner_register(&made->owner));
            return made;
        }();
        own = &shared->owner;
        claimed = pool_figures().claimed_pages;
    }
    void TearDown() override
    {
        EXPECT_FALSE(remote_is_pending(own));
        slab_release_empty(own);
        EXPECT_EQ(pool_figures().claimed_pages, claimed) << "pages were lost";
        hak_inspect_report report;
        EXPECT_TRUE(hak_inspect(&report)) << report.broken_law;
    }

    static std::vector<block *> blocks_of(block *list)
    {
        std::vector<block *> blocks;
        for (; list != nullptr; list = list->next) blocks.push_back(list);
        return blocks;
    }

    std::vector<block *> make_full(uint32_t class_index)
    {
        std::vector<block *> all;
        for (slab *s = slab_make(own, class_index); !s->full;)
            for (block *b : blocks_of(slab_take(s))) all.push_back(b);
        return all;
    }

    static void post(const std::vector<block *> &blocks)
    {
        for (size_t i = 0; i + 1 < blocks.size(); i++) blocks[i]->next = blocks[i + 1];
        remote_post(slab_of(blocks[0]), blocks.front(), blocks.back(), (uint32_t)blocks.size());
    }

    owner *own = nullptr;
    size_t claimed = 0;
    staging table = {};
};

} // namespace

TEST_F(Remote, PostedBlocksComeBackOnce)
{
    for (uint32_t c : {1u, sizeclass_of(48), sizeclass_of(1024), (uint32_t)CLASS_GEOMETRIC_LAST}) {
        std::vector<block *> all = make_full(c);
        slab *s = slab_of(all[0]);
        test::in_threads(4, [&](int thread) {
            std::vector<block *> some;
            for (size_t i = (size_t)thread; i < all.size(); i += 4) {
                some.push_back(all[i]);
                if (some.size() < 3) continue;
                post(some);
                some.clear();
            }
            if (!some.empty()) post(some);
        });
        EXPECT_TRUE(remote_is_pending(own));
        EXPECT_EQ(posted(s), all.size());
        EXPECT_EQ(s->used_count.load(), all.size()) << "in use until they are drained";
        EXPECT_EQ(remote_drain_some(own, CLASS_EMPTY, UINT32_MAX), nullptr);
        EXPECT_EQ(s->remote.load(), 0u);
        EXPECT_EQ(s->used_count.load(), 0u);
        std::vector<block *> free = blocks_of(s->free);
        EXPECT_EQ(std::set<block *>(free.begin(), free.end()), std::set<block *>(all.begin(), all.end()));
        EXPECT_EQ(free.size(), all.size());
        slab_release_empty(own);
    }
}

// What other threads freed is taken in the order in which it came, and before what the owner gave back, which comes by address.
// For all mixes of two give-backs.
TEST_F(Remote, DrainedBlocksAreTakenAsTheyCame)
{
    enum Freer { OWNER, OTHERS };
    std::vector<block *> all = make_full(sizeclass_of(512));
    slab *s = slab_of(all[0]);
    test::Rng rng(test::seed());
    for (size_t i = all.size() - 1; i > 0; i--) std::swap(all[i], all[rng.below(i + 1)]);
    for (size_t first : {size_t{1}, size_t{2}, all.size() / 8})
        for (size_t second : {size_t{0}, size_t{1}, all.size() / 8 - 1})
            for (Freer who : {OWNER, OTHERS})
                for (Freer then : {OWNER, OTHERS}) {
                    SCOPED_TRACE(testing::Message() << first << " by " << who << ", then " << second << " by " << then);
                    std::vector<block *> list, marked;
                    size_t at = 0;
                    const auto give_back = [&](Freer freer, size_t count) {
                        std::vector<block *> some(all.begin() + (ptrdiff_t)at, all.begin() + (ptrdiff_t)(at + count));
                        at += count;
                        if (freer == OWNER) {
                            for (block *b : some) slab_give_back(s, b);
                            marked.insert(marked.end(), some.begin(), some.end());
                        } else if (count != 0) {
                            post(some);
                            EXPECT_EQ(remote_drain_some(own, CLASS_EMPTY, UINT32_MAX), nullptr);
                            list.insert(list.begin(), some.begin(), some.end());
                        }
                    };
                    give_back(who, first);
                    give_back(then, second);
                    std::sort(marked.begin(), marked.end());
                    if (!list.empty()) EXPECT_EQ(blocks_of(slab_take(s)), list);
                    if (!marked.empty()) EXPECT_EQ(blocks_of(slab_take(s)), marked);
                    EXPECT_TRUE(s->full);
                }
    post({all[0], all[1]});
    EXPECT_EQ(remote_drain_some(own, CLASS_EMPTY, UINT32_MAX), nullptr);
    slab_give_back(s, all[2]);
    EXPECT_EQ(slab_take_one(s), all[0]) << "as defragmentation does";
    EXPECT_EQ(slab_take_one(s), all[1]);
    EXPECT_EQ(slab_take_one(s), all[2]);
    EXPECT_EQ(slab_take_one(s), nullptr);
    for (block *b : all) slab_give_back(s, b);
}

TEST_F(Remote, QueuedOnce)
{
    std::vector<block *> first = make_full(sizeclass_of(1024)), second = make_full(sizeclass_of(2048));
    slab *s = slab_of(first[0]), *t = slab_of(second[0]);
    EXPECT_EQ(s->remote.load(), 0u);
    post({first[0]});
    EXPECT_EQ(s->remote.load() & QUEUED, QUEUED);
    EXPECT_EQ(own->pending.load(), s);
    EXPECT_EQ(s->next_pending, nullptr);
    post({first[1], first[2]});
    EXPECT_EQ(own->pending.load(), s);
    EXPECT_EQ(s->next_pending, nullptr) << "queued a second time";
    EXPECT_EQ(posted(s), 3u);
    post({second[0]});
    EXPECT_EQ(own->pending.load(), t);
    EXPECT_EQ(t->next_pending, s);
    remote_drain(own);
    EXPECT_EQ(own->pending.load(), nullptr);
    EXPECT_EQ(s->used_count.load(), first.size() - 3);
    post({first[3]}); // queued again
    EXPECT_EQ(own->pending.load(), s);
    for (size_t i = 4; i < first.size(); i++) post({first[i]});
    for (size_t i = 1; i < second.size(); i++) post({second[i]});
    remote_drain(own);
}

TEST_F(Remote, DrainHandsOverOneListOfTheWantedClass)
{
    uint32_t c = sizeclass_of(1024), other = sizeclass_of(2048);
    std::vector<block *> a = make_full(c), b = make_full(c), d = make_full(other);
    post(d);
    post(a);
    post(b); // on top of the queue
    block *list = remote_drain_some(own, c, UINT32_MAX);
    std::vector<block *> wanted = blocks_of(list);
    EXPECT_EQ(std::set<block *>(wanted.begin(), wanted.end()), std::set<block *>(b.begin(), b.end()));
    EXPECT_EQ(slab_of(b[0])->used_count.load(), b.size()) << "its blocks stay in use";
    EXPECT_EQ(slab_of(b[0])->remote.load(), 0u);
    EXPECT_EQ(slab_of(a[0])->used_count.load(), 0u);
    slab_give_back_list(slab_of(b[0]), list, wanted.back(), (uint32_t)b.size());
    EXPECT_EQ(remote_drain_some(own, c, UINT32_MAX), nullptr);
}

// A slow path drains DRAIN_SLABS_MAX slabs at most, those queued last, and owes the others.
TEST_F(Remote, ADrainStopsAtItsBound)
{
    for (uint32_t slabs : {0u, 1u, DRAIN_SLABS_MAX - 1u, (uint32_t)DRAIN_SLABS_MAX, DRAIN_SLABS_MAX + 1u}) {
        std::vector<std::vector<block *>> all;
        for (uint32_t i = 0; i < slabs; i++) all.push_back(make_full(sizeclass_of(4096)));
        for (const std::vector<block *> &each : all) post(each);
        EXPECT_EQ(remote_drain_some(own, CLASS_EMPTY, DRAIN_SLABS_MAX), nullptr);
        EXPECT_EQ(own->owes_drain, slabs > DRAIN_SLABS_MAX);
        EXPECT_EQ(own->pending.load(), slabs > DRAIN_SLABS_MAX ? slab_of(all[0][0]) : nullptr);
        remote_drain(own);
        EXPECT_FALSE(own->owes_drain);
        EXPECT_EQ(own->pending.load(), nullptr);
    }
}

// At STAGE_BLOCKS_MAX blocks, or STAGE_BYTES_MAX bytes of larger ones.
TEST_F(Remote, AStageIsPostedWhenItIsFull)
{
    for (uint32_t c : {1u, sizeclass_of(1024), sizeclass_of(4096), (uint32_t)CLASS_GEOMETRIC_LAST}) {
        std::vector<block *> all = make_full(c);
        slab *s = slab_of(all[0]);
        // Blocks of one page only, since the table is by page.
        std::vector<block *> page;
        for (block *b : all)
            if ((uintptr_t)b >> PAGE_SHIFT == (uintptr_t)all[0] >> PAGE_SHIFT) page.push_back(b);
        uint32_t limit = sizeclass_stage_blocks(c);
        size_t staged = std::min<size_t>(page.size(), limit);
        for (size_t i = 0; i < staged; i++) {
            EXPECT_EQ(posted(s), 0u) << "posted early";
            remote_stage(&table, page[i], c);
        }
        if (page.size() >= limit) EXPECT_EQ(posted(s), limit);
        else remote_post_all(&table);
        for (block *b : all)
            if (std::find(page.begin(), page.begin() + (ptrdiff_t)staged, b) == page.begin() + (ptrdiff_t)staged)
                remote_stage(&table, b, c);
        remote_post_all(&table);
        EXPECT_EQ(posted(s), all.size());
        remote_drain(own);
        EXPECT_EQ(s->used_count.load(), 0u);
        slab_release_empty(own);
    }
}

TEST_F(Remote, AStageWantedForAnotherPageIsPosted)
{
    uint32_t c = sizeclass_of(1024);
    std::vector<std::vector<block *>> slabs;
    for (int i = 0; i < STAGES + 1; i++) slabs.push_back(make_full(c)); // two of them share a stage
    for (const auto &blocks : slabs) remote_stage(&table, blocks[0], c);
    uint32_t in_table = 0, in_slabs = 0;
    for (const stage &each : table.stages) in_table += each.count;
    for (const auto &blocks : slabs) in_slabs += posted(slab_of(blocks[0]));
    EXPECT_EQ(in_table + in_slabs, slabs.size());
    EXPECT_GE(in_slabs, 1u);
    for (const auto &blocks : slabs) remote_stage(&table, blocks[1], c);
    remote_post_all(&table);
    for (const stage &each : table.stages) EXPECT_EQ(each.count, 0u);
    for (const auto &blocks : slabs) EXPECT_EQ(posted(slab_of(blocks[0])), 2u);
    remote_post_all(&table); // posts nothing: no stage is left
    for (const auto &blocks : slabs)
        for (size_t i = 2; i < blocks.size(); i++) remote_stage(&table, blocks[i], c);
    remote_post_all(&table);
    remote_drain(own);
}

// All threads share STAGES_ALL_MAX, also when heaps come while a thread's table is full.
TEST_F(Remote, BesideManyHeapsAThreadHoldsFewStages)
{
    EXPECT_TRUE(test::in_child([this] {
        const uint32_t c = sizeclass_of(1024), all = STAGES_ALL_MAX, shared_by = all / STAGES;
        std::vector<std::vector<block *>> slabs;
        for (int i = 0; i < 2 * STAGES; i++) slabs.push_back(make_full(c));
        const auto stage_in = [&](size_t first_slab, size_t block) {
            for (size_t i = first_slab; i < first_slab + STAGES; i++) remote_stage(&table, slabs[i][block], c);
            return std::count_if(table.stages, table.stages + STAGES, [](const stage &each) { return each.count > 0; });
        };
        const auto may_hold = [this](size_t heaps) { // bytes, of all heaps, if each thread does as this one
            size_t blocks = 0;
            for (const stage &each : table.stages) blocks += each.count > 0 ? each.count_max : 0;
            return blocks * 1024 * heaps;
        };
        size_t block = 0;
        for (uint32_t heaps :
             {shared_by - 1, shared_by, shared_by + 1, all / STAGES_MIN, 2 * all / STAGES_MIN, all / 2, all, all + 1}) {
            stage_in(0, block++);
            while (owner_count() < heaps) ASSERT_TRUE(owner_register(own));
            const long most = std::clamp<long>(all / owner_count(), STAGES_MIN, STAGES);
            EXPECT_LE(stage_in(STAGES, block++), most) << owner_count() << " heaps";
            EXPECT_LE(may_hold(heaps), (size_t)all * STAGE_BYTES_MAX) << heaps << " heaps";
            table.held_count += heaps % 2; // as in a child that a handler forked while its thread posted a stage
            remote_post_all(&table);
            const long stages = stage_in(0, block++);
            if (heaps < all / 2)
                EXPECT_GE(stages, std::min(most, STAGES / 2l)) << "posted early: " << heaps << " heaps";
            remote_post_all(&table);
        }
    }));
}

TEST_F(Remote, AnOrphansSlabsAreDrainedByWhoPosts)
{
    uint32_t c = sizeclass_of(1024);
    std::vector<block *> all = make_full(c);
    slab *s = slab_of(all[0]);
    post({all[0]});
    remote_drain(own);
    ASSERT_TRUE(owner_abandon(own));
    post({all[1]});
    EXPECT_FALSE(remote_is_pending(own));
    EXPECT_EQ(s->used_count.load(), all.size() - 2);
    EXPECT_TRUE(owner_is_orphan(own)) << "it is only borrowed";
    test::in_thread([&] { post({all.begin() + 2, all.end()}); });
    EXPECT_EQ(pool_figures().claimed_pages, claimed) << "nobody adopted it, yet its memory is back";
    EXPECT_TRUE(owner_adopt_this(own));
}

// An orphan that keeps nothing shrinks as blocks come back: who posts the last of them trims its slabs.
TEST_F(Remote, AnOrphanThatShrinksIsTrimmedByWhoPosts)
{
    SKIP_UNDER_SANITIZER("nothing is trimmed there");
    std::vector<std::vector<block *>> slabs;
    for (size_t bytes = 0; bytes < 2 * SHRINK_BYTES_MIN; bytes += slabs.back().size() * 1024)
        slabs.push_back(make_full(sizeclass_of(1024)));
    own->used_bytes_peak = owner_used_bytes(own);
    ASSERT_TRUE(owner_abandon(own));
    for (const auto &blocks : slabs) post({blocks.begin() + 1, blocks.end()});
    EXPECT_LT(owner_idle_bytes(own), slabs.size() * PAGE_BYTES / 2);
    for (const auto &blocks : slabs) post({blocks[0]});
    EXPECT_TRUE(owner_adopt_this(own));
}

namespace {

// The name of a step, and what the hook does there, once, as another thread would.
const char *between_step;
std::function<void()> between;

void at_drain_step(const char *step)
{
    if (between == nullptr || strcmp(step, between_step) != 0) return;
    std::exchange(between, nullptr)();
}

} // namespace

TEST_F(Remote, WhatIsPostedInBetweenIsNotLost)
{
    SKIP_WITHOUT_VALIDATE();
    for (const char *step : {"pending_push", "remote_drain_slab", "remote_post"}) {
        std::vector<block *> first = make_full(sizeclass_of(1024)), second = make_full(sizeclass_of(2048));
        slab *s = slab_of(first[0]), *t = slab_of(second[0]);
        between_step = step;
        between = [&] { post({first[1]}), post({second[0]}); };
        hak_sync_point_hook = at_drain_step;
        post({first[0]});
        remote_drain(own);
        hak_sync_point_hook = nullptr;
        EXPECT_EQ(between, nullptr) << step << " was not met";
        remote_drain(own); // drains the blocks that came during the first drain
        EXPECT_EQ(s->used_count.load(), first.size() - 2) << step;
        EXPECT_EQ(t->used_count.load(), second.size() - 1) << step;
        post({first.begin() + 2, first.end()});
        post({second.begin() + 1, second.end()});
        remote_drain(own);
    }
}

TEST_F(Remote, ThreadsPostWhileTheOwnerDrains)
{
    constexpr int POSTERS = 3;
    const uint32_t c = sizeclass_of(256);
    static std::atomic<block *> slots[POSTERS];
    static std::atomic<bool> done;
    done = false;
    std::vector<std::thread> posters;
    for (int i = 0; i < POSTERS; i++)
        posters.emplace_back([i, c] {
            staging mine = {};
            while (true) {
                bool last = done.load();
                for (block *list = slots[i].exchange(nullptr); list != nullptr;) {
                    block *b = list;
                    list = list->next;
                    memset(static_cast<void *>(b), 0x5a, 256); // a write that the post publishes
                    remote_stage(&mine, b, c);
                }
                if (last) break;
            }
            remote_post_all(&mine);
        });
    uint64_t handed = 0;
    test::Rng rng;
    for (int i = 0; i < test::rounds(20000); i++) {
        block *list = rng.below(2) == 0 ? remote_drain_some(own, c, UINT32_MAX) : nullptr;
        if (list == nullptr) {
            slab *s = own->slabs[c] != nullptr ? own->slabs[c] : slab_make(own, c);
            list = slab_take(s);
        }
        for (block *b = list; b != nullptr; b = b->next) handed++;
        // If the poster is still busy with its last list, the blocks go straight back.
        block *expected = nullptr;
        if (!slots[rng.below(POSTERS)].compare_exchange_strong(expected, list))
            while (list != nullptr) {
                block *b = list;
                list = list->next;
                slab_give_back(slab_of(b), b);
            }
    }
    done = true;
    for (std::thread &poster : posters) poster.join();
    EXPECT_EQ(remote_drain_some(own, CLASS_EMPTY, UINT32_MAX), nullptr);
    EXPECT_GT(handed, 1000u);
    uint32_t left = 0;
    for (slab *s = own->slabs[c]; s != nullptr; s = s->next == own->slabs[c] ? nullptr : s->next)
        left += s->used_count.load();
    EXPECT_EQ(left, 0u) << "blocks were lost on the way";
}
