// owner_test.cc: registration, orphans, and the race for them; law 4.
#include "base/test_support.h"

#include <set>

extern "C" {
#include "base/sync_point.h"
#include "cache/tcache.h"
#include "hakmem/hakmem.h"
#include "os/meta.h"
#include "slab/owner.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "slab/take.h"
}

namespace {

owner *make_owner()
{
    auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
    memset(static_cast<void *>(made), 0, sizeof *made);
    EXPECT_TRUE(owner_register(&made->owner));
    return &made->owner;
}

} // namespace

TEST(Owner, Register)
{
    uint32_t before = owner_count();
    owner *first = make_owner(), *second = make_owner();
    EXPECT_EQ(owner_count(), before + 2);
    EXPECT_EQ(first->id, before + 1);
    EXPECT_EQ(second->id, before + 2);
    EXPECT_EQ(first->tag, first->id << TAG_OWNER_SHIFT);
    EXPECT_EQ(owner_with_id(first->id), first);
    EXPECT_EQ(owner_with_id(second->id), second);
    EXPECT_EQ(owner_with_id(0), nullptr);
    EXPECT_EQ(owner_with_id(second->id + 1), nullptr);
    EXPECT_EQ(owner_with_id(HEAPS_MAX - 1), nullptr);
    EXPECT_EQ(owner_with_id(HEAPS_MAX), nullptr);
    EXPECT_EQ(owner_with_id(UINT32_MAX), nullptr);
    EXPECT_FALSE(owner_is_orphan(first)) << "the caller holds it";
}

TEST(Owner, HasShrunkBelowAPartOfItsPeak)
{
    struct owner one = {};
    one.used_bytes_peak = SHRINK_BYTES_MIN;
    const size_t bound = SHRINK_BYTES_MIN >> SHRINK_LOG2;
    for (const auto &[used_bytes, has] : {std::pair(bound, false), {bound - 1, true}, {(size_t)0, true}}) {
        owner_used_bytes_set(&one, used_bytes);
        EXPECT_EQ(owner_has_shrunk(&one), has) << used_bytes;
    }
    one.used_bytes_peak = SHRINK_BYTES_MIN - 1;
    EXPECT_FALSE(owner_has_shrunk(&one)) << "too little for it to matter";
}

TEST(Owner, RegisterToTheLastIdAndNoFurther)
{
    EXPECT_TRUE(test::in_child([] { // the same owner again and again: only the table counts here
        owner *same = make_owner();
        const uint32_t first = same->id;
        while (owner_count() < HEAPS_MAX - 1) ASSERT_TRUE(owner_register(same)) << owner_count();
        EXPECT_EQ(same->id, HEAPS_MAX - 1u);
        for (uint32_t id = first; id < HEAPS_MAX; id++) ASSERT_EQ(owner_with_id(id), same) << id;
        EXPECT_FALSE(owner_register(same));
        EXPECT_EQ(owner_count(), HEAPS_MAX - 1u);
        EXPECT_EQ(same->id, HEAPS_MAX - 1u);
        while (owner_adopt() != nullptr) {}
        const auto serves_a_thread = [] { test::in_thread([] { hak_free(hak_malloc(100)); }); };
        serves_a_thread();
        auto *before = static_cast<char *>(meta_alloc(64));
        serves_a_thread();
        EXPECT_EQ(static_cast<char *>(meta_alloc(64)), before + 64) << "no heap is made that has no place in the table";
    }));
}

TEST(Owner, AbandonAndAdopt)
{
    owner *own = make_owner();
    uint32_t orphans = owner_orphan_count();
    EXPECT_FALSE(owner_adopt_this(own)) << "it is held";
    EXPECT_TRUE(owner_abandon(own));
    EXPECT_TRUE(owner_is_orphan(own));
    EXPECT_EQ(owner_orphan_count(), orphans + 1);
    EXPECT_TRUE(owner_adopt_this(own));
    EXPECT_FALSE(owner_is_orphan(own));
    EXPECT_FALSE(owner_adopt_this(own)) << "once only";
    EXPECT_EQ(owner_orphan_count(), orphans);
}

TEST(Owner, AdoptFindsEveryOrphanAndThenNone)
{
    std::set<owner *> abandoned;
    for (int i = 0; i < 130; i++) abandoned.insert(make_owner()); // more than two words of the map
    while (owner_adopt() != nullptr) {}
    EXPECT_EQ(owner_orphan_count(), 0u);
    for (owner *own : abandoned) EXPECT_TRUE(owner_abandon(own));
    EXPECT_EQ(owner_orphan_count(), 130u);
    std::set<owner *> adopted;
    while (owner *own = owner_adopt()) EXPECT_TRUE(adopted.insert(own).second) << "adopted twice";
    EXPECT_EQ(adopted, abandoned);
}

TEST(Owner, AdoptTakesThePreferredOnesFirst)
{
    test::Rng rng(test::seed());
    std::vector<owner *> all;
    for (int i = 0; i < 130; i++) all.push_back(make_owner());
    while (owner_adopt() != nullptr) {}
    for (int round = 0; round < 20; round++) {
        std::set<owner *> preferred;
        for (owner *own : all) {
            if (rng.below((uint64_t)round + 1) == 0) preferred.insert(own);
            owner_prefer(own, preferred.contains(own));
            EXPECT_TRUE(owner_abandon(own));
        }
        for (size_t i = 0; i < all.size(); i++) EXPECT_EQ(preferred.contains(owner_adopt()), i < preferred.size()) << i;
        EXPECT_EQ(owner_adopt(), nullptr);
    }
    for (owner *own : all) owner_prefer(own, false);
}

TEST(Owner, AdoptFindsTheFirstAndTheLastOfEachWord)
{
    EXPECT_TRUE(test::in_child([] {
        while (owner_adopt() != nullptr) {}
        for (uint32_t word = owner_count() / 64 + 1, end = word + 3; word < end; word++)
            for (uint32_t id : {64 * word - 1, 64 * word, 64 * word + 1}) {
                owner *last = nullptr;
                while (owner_count() < id) last = make_owner();
                ASSERT_TRUE(last != nullptr && owner_abandon(last));
                EXPECT_EQ(owner_adopt(), last) << id;
                EXPECT_EQ(owner_adopt(), nullptr);
            }
    }));
}

TEST(Owner, RacingAdoptersNeverShareOne)
{
    constexpr int OWNERS = 70;
    static std::vector<owner *> all;
    static std::atomic<int> held[4096], shared, adoptions;
    shared = adoptions = 0;
    while (owner_adopt() != nullptr) {}
    for (int i = 0; i < OWNERS; i++) all.push_back(make_owner());
    for (owner *own : all) ASSERT_TRUE(owner_abandon(own));
    test::in_threads(4, [](int thread) {
        test::Rng rng((uint64_t)thread);
        for (int i = 0; i < test::rounds(20000); i++) {
            owner *own = nullptr;
            if (rng.below(2) == 0) {
                own = owner_adopt();
            } else if (owner *named = all[rng.below(all.size())]; owner_adopt_this(named)) {
                own = named;
            }
            if (own == nullptr) continue;
            adoptions++;
            if (held[own->id].exchange(1) != 0) shared++;
            own->slabs[0] = nullptr; // a plain write: a second holder would race with it
            held[own->id] = 0;
            EXPECT_TRUE(owner_abandon(own));
        }
    });
    EXPECT_EQ(shared, 0);
    EXPECT_GT(adoptions, 1000);
    for (int i = 0; i < OWNERS; i++) EXPECT_NE(owner_adopt(), nullptr) << "one was lost";
    EXPECT_EQ(owner_adopt(), nullptr);
}

TEST(Owner, AbandonSeesWhatIsPending)
{
    owner *own = make_owner();
    slab *s = slab_make(own, 1);
    ASSERT_NE(s, nullptr);
    std::vector<block *> blocks;
    for (block *b = slab_take(s); b != nullptr; b = b->next) blocks.push_back(b);
    remote_post(s, blocks[0], blocks[0], 1);
    EXPECT_FALSE(owner_abandon(own)) << "nobody would drain it";
    EXPECT_FALSE(owner_is_orphan(own)) << "the caller holds it again";
    remote_drain(own);
    for (size_t i = 1; i < blocks.size(); i++) slab_give_back(s, blocks[i]);
    slab_release_empty(own);
    EXPECT_TRUE(owner_abandon(own));
    EXPECT_TRUE(owner_adopt_this(own));
}

namespace {

// A post meets an abandonment: at a step of the one, the hook does the other, once.
owner *meeting;
block *meeting_block;
const char *meeting_step;

void at_step(const char *step)
{
    if (meeting == nullptr || strcmp(step, meeting_step) != 0) return;
    owner *own = std::exchange(meeting, nullptr);
    if (strcmp(step, "owner_adopt") == 0) EXPECT_TRUE(owner_adopt_this(own));
    else if (meeting_block == nullptr) EXPECT_TRUE(owner_abandon(own));
    else remote_post(slab_of(meeting_block), meeting_block, meeting_block, 1);
}

class OwnerMeeting : public testing::Test {
  protected:
    void SetUp() override
    {
        SKIP_WITHOUT_VALIDATE();
        own = make_owner();
        s = slab_make(own, 1);
        for (block *b = slab_take(s); b != nullptr; b = b->next) blocks.push_back(b);
        hak_sync_point_hook = at_step;
    }
    void TearDown() override
    {
        if (own == nullptr) return; // this build has no hook: skipped
        hak_sync_point_hook = nullptr;
        EXPECT_EQ(meeting, nullptr) << meeting_step << " was not met";
        if (owner_is_orphan(own)) EXPECT_TRUE(owner_adopt_this(own));
        remote_drain(own);
        for (size_t i = 1; i < blocks.size(); i++) slab_give_back(s, blocks[i]);
        slab_release_empty(own);
    }
    owner *own = nullptr;
    slab *s = nullptr;
    std::vector<block *> blocks;
};

} // namespace

// Another thread takes the orphan that a search has found: the search moves on to the next one.
TEST_F(OwnerMeeting, AnotherAdoptsItFirst)
{
    owner *next = make_owner();
    EXPECT_TRUE(owner_abandon(own));
    EXPECT_TRUE(owner_abandon(next));
    ASSERT_LT(own->id, next->id);
    meeting = own, meeting_block = nullptr, meeting_step = "owner_adopt";
    EXPECT_EQ(owner_adopt(), next);
    EXPECT_FALSE(owner_is_orphan(own));
    EXPECT_EQ(owner_adopt(), nullptr);
    EXPECT_TRUE(owner_abandon(next));
    slab_give_back(s, blocks[0]);
}

TEST_F(OwnerMeeting, APostBeforeTheBitIsSeen)
{
    meeting = own, meeting_block = blocks[0], meeting_step = "owner_abandon";
    EXPECT_FALSE(owner_abandon(own)) << "nobody would drain it";
    EXPECT_FALSE(owner_is_orphan(own));
}

TEST_F(OwnerMeeting, AnEndBeforeTheQueueIsSeen)
{
    meeting = own, meeting_block = nullptr, meeting_step = "pending_push";
    remote_post(s, blocks[0], blocks[0], 1);
    EXPECT_TRUE(owner_is_orphan(own));
    EXPECT_FALSE(remote_is_pending(own)) << "nobody would drain it";
}
