// remote_litmus_test.cc: the pairs of slab/remote.c and slab/owner.c, one hand-over each.
#include "litmus/litmus_test_support.h"

extern "C" {
#include "cache/tcache.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "slab/take.h"
}

namespace {

constexpr size_t BLOCK_BYTES = 1024;

owner *make_owner()
{
    auto *made = static_cast<struct heap *>(aligned_alloc(64, sizeof(struct heap)));
    memset(static_cast<void *>(made), 0, sizeof *made);
    EXPECT_TRUE(owner_register(&made->owner));
    return &made->owner;
}

void post(block *b)
{
    remote_post(slab_of(b), b, b, 1);
}

class LitmusRemote : public testing::Test {
  protected:
    void SetUp() override
    {
        own = make_owner();
        first = make_full();
        second = make_full();
    }
    void TearDown() override
    {
        remote_drain(own);
        for (const auto &blocks : {first, second})
            for (block *b : blocks)
                if (b != nullptr) slab_give_back(slab_of(b), b);
        slab_release_empty(own);
        EXPECT_EQ(own->used_bytes, 0u);
    }

    // All blocks of a new slab.
    std::vector<block *> make_full()
    {
        slab *s = slab_make(own, sizeclass_of(BLOCK_BYTES));
        std::vector<block *> all;
        while (!s->full)
            for (block *b = slab_take(s); b != nullptr; b = b->next) all.push_back(b);
        return all;
    }

    // Clears the test's pointer to a block that goes to the heap.
    static block *leave(block *&b) { return std::exchange(b, nullptr); }

    owner *own = nullptr;
    std::vector<block *> first, second;
};

} // namespace

// remote_post (release) and remote_drain (acquire of the slab's word). The second post queues nothing, so only the word
// orders it before the drain.
TEST_F(LitmusRemote, BlocksThroughTheWord)
{
    block *queues = leave(first[0]), *only_posted = leave(first[1]);
    bool whole = false;
    block *list = nullptr;
    litmus::in_order({
        [&] { post(queues); },
        [&] {
            litmus::write_plainly(only_posted, BLOCK_BYTES, 7);
            post(only_posted);
        },
        [&] {
            list = remote_drain_some(own, sizeclass_of(BLOCK_BYTES), UINT32_MAX);
            whole = litmus::read_plainly(only_posted, BLOCK_BYTES, 7);
        },
    });
    EXPECT_TRUE(whole);
    ASSERT_EQ(list, only_posted);
    EXPECT_EQ(list->next, queues);
    first[0] = queues;
    first[1] = only_posted;
}

// remote_drain (release of the slab's word) and remote_post (acquire): the drain reads next_pending, and the next post
// writes it.
TEST_F(LitmusRemote, TheSlabHasLeftTheQueue)
{
    block *before = leave(first[0]), *after = leave(first[1]);
    litmus::in_order({
        [&] { post(before); },
        [&] { remote_drain(own); },
        [&] { post(after); },
    });
    EXPECT_TRUE(remote_is_pending(own));
    EXPECT_EQ(remote_count(slab_of(after)), 1u);
}

// pending_push (release) and remote_drain (acquire of the owner's queue): the link between two slabs.
TEST_F(LitmusRemote, TheQueuesLinks)
{
    block *one = leave(first[0]), *other = leave(second[0]);
    litmus::in_order({
        [&] { post(one); },
        [&] { post(other); },
        [&] { remote_drain(own); },
    });
    EXPECT_FALSE(remote_is_pending(own));
    EXPECT_EQ(remote_count(slab_of(one)) + remote_count(slab_of(other)), 0u);
}

namespace {

class LitmusOwner : public testing::Test {
  protected:
    void SetUp() override
    {
        while (owner_adopt() != nullptr) {}
        own = make_owner();
    }
    owner *own = nullptr;
};

} // namespace

// owner_abandon (release) and owner_adopt (acquire of the orphan's bit).
TEST_F(LitmusOwner, AnyOrphanIsAdopted)
{
    owner *adopted = nullptr;
    size_t seen = 0;
    litmus::in_order({
        [&] {
            own->used_bytes_peak = 77;
            EXPECT_TRUE(owner_abandon(own));
        },
        [&] {
            adopted = owner_adopt();
            seen = own->used_bytes_peak;
        },
    });
    EXPECT_EQ(adopted, own);
    EXPECT_EQ(seen, 77u);
}

TEST_F(LitmusOwner, ThisOrphanIsAdopted)
{
    bool adopted = false;
    size_t seen = 0;
    litmus::in_order({
        [&] {
            own->used_bytes_peak = 77;
            EXPECT_TRUE(owner_abandon(own));
        },
        [&] {
            adopted = owner_adopt_this(own);
            seen = own->used_bytes_peak;
        },
    });
    EXPECT_TRUE(adopted);
    EXPECT_EQ(seen, 77u);
}

// owner_register (release) and owner_with_id (acquire).
TEST_F(LitmusOwner, ARegisteredOwnerIsWhole)
{
    litmus::Hand<uint32_t> id;
    uint32_t tag = 0;
    litmus::in_order({
        [&] { id.give(make_owner()->id); },
        [&] { tag = owner_with_id(id.take())->tag; },
    });
    EXPECT_EQ(tag, id.take() << TAG_OWNER_SHIFT);
}
