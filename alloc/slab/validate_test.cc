// validate_test.cc: each kind of misuse and corruption ends the process with a report that names the kind and the
// address. The tests call public functions, except where they must damage the heap itself.
#include "heap/heap_test_support.h"

extern "C" {
#include "report/failfast.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
}

namespace {

std::string report(const char *kind, const void *address)
{
    char text[128];
    snprintf(text, sizeof text, "hakmem: failfast: %s: .*hakmem:   address 0x%016llx", kind,
             (unsigned long long)reinterpret_cast<uintptr_t>(address));
    return text;
}

char *alloc(size_t size)
{
    return static_cast<char *>(hak_malloc(size));
}

class Validate : public test::HeapTest {};
class ValidateDeathTest : public test::HeapTest {};

} // namespace

TEST_F(ValidateDeathTest, DoubleFree)
{
    for (size_t size : {1u, 100u, 1024u, 5000u, 32768u}) {
        char *block = alloc(size), *other = alloc(size);
        EXPECT_DEATH(
            {
                hak_free(block);
                hak_free(block);
            },
            report("double_free", block));
        EXPECT_DEATH(
            {
                hak_free(block);
                hak_free(other);
                hak_free(block);
            },
            report("double_free", block));
        hak_free(block);
        hak_free(other);
    }
}

TEST_F(ValidateDeathTest, DoubleFreeByOtherThreads)
{
    char *block = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(block);
            test::in_thread([&] { hak_free(block); });
        },
        report("double_free", block));
    EXPECT_DEATH(
        {
            test::in_thread([&] { hak_free(block); });
            hak_free(block);
        },
        report("double_free", block));
    EXPECT_DEATH(
        {
            test::in_thread([&] { hak_free(block); });
            test::in_thread([&] { hak_free(block); });
        },
        report("double_free", block));
    hak_free(block);
}

TEST_F(ValidateDeathTest, DoubleFreeOfARun)
{
    for (size_t size : {(size_t)100000, (size_t)RUN_BYTES_MAX, (size_t)5 << 20}) {
        char *block = alloc(size);
        EXPECT_DEATH(
            {
                hak_free(block);
                hak_free(block);
            },
            report("double_free", block));
        hak_free(block);
    }
}

TEST_F(ValidateDeathTest, DoubleFreeAfterTheSlabIsGone)
{
    char *block = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(block);
            hak_purge();
            hak_free(block);
        },
        report("(double_free|foreign_pointer)", block));
    hak_free(block);
}

TEST_F(ValidateDeathTest, ReallocOfAFreedBlock)
{
    char *block = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(block);
            (void)!hak_realloc(block, 200);
        },
        report("realloc_freed", block));
    EXPECT_DEATH(
        {
            hak_free(block);
            (void)!hak_realloc(block, 100);
        },
        report("realloc_freed", block));
    EXPECT_DEATH(
        {
            hak_free(block);
            (void)!hak_realloc(block, 0);
        },
        report("realloc_freed", block));
    hak_free(block);
}

TEST_F(ValidateDeathTest, Interior)
{
    for (size_t size : {32u, 100u, 1024u, 5000u, 32768u}) {
        char *block = alloc(size);
        EXPECT_DEATH(hak_free(block + 16), report("interior_pointer", block + 16));
        hak_free(block);
    }
    for (size_t size : {(size_t)PAGE_BYTES, (size_t)3 << 20}) {
        char *block = alloc(size);
        EXPECT_DEATH(hak_free(block + 4096), report("interior_pointer", block + 4096));
        EXPECT_DEATH((void)!hak_realloc(block + 4096, 100), report("interior_pointer", block + 4096));
        hak_free(block);
    }
    char *huge = alloc((size_t)20 << 20); // the same for a huge block
    EXPECT_DEATH(hak_free(huge + ((size_t)8 << 20)), report("interior_pointer", huge + ((size_t)8 << 20)));
    hak_free(huge);
    char *run = alloc(3 * PAGE_BYTES); // only the first page of a run has a tag
    EXPECT_DEATH(hak_free(run + PAGE_BYTES), report("interior_pointer", run + PAGE_BYTES));
    hak_free(run);
    EXPECT_DEATH(hak_free(run), report("double_free", run));
}

TEST_F(ValidateDeathTest, Misaligned)
{
    for (size_t size : {16u, 100u, 5000u, 100000u, 5000000u}) {
        char *block = alloc(size);
        for (size_t off : {1u, 8u, 15u}) EXPECT_DEATH(hak_free(block + off), report("misaligned_pointer", block + off));
        hak_free(block);
    }
}

TEST_F(ValidateDeathTest, Foreign)
{
    // Not the address of a variable: a sanitizer may keep those elsewhere.
    auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    char *on_stack = reinterpret_cast<char *>(frame / 16 * 16);
    alignas(16) static char in_data[64] = "data", in_zeroes[64];
    char *of_libc = static_cast<char *>(malloc(64));
    const struct {
        const char *kind;
        char *pointer;
    } all[] = {{"stack_pointer", on_stack},
               {"static_pointer", in_data},
               {"static_pointer", in_zeroes},
               {"foreign_pointer", of_libc},
               {"foreign_pointer", reinterpret_cast<char *>(0xdead0000beef0000)},
               {"foreign_pointer", reinterpret_cast<char *>(16)}};
    for (auto [kind, pointer] : all) {
        EXPECT_DEATH(hak_free(pointer), report(kind, pointer));
        EXPECT_DEATH((void)!hak_realloc(pointer, 10), report(kind, pointer));
    }
    free(of_libc);
}

TEST_F(ValidateDeathTest, NeverReturned)
{
    // 65 blocks of 1008 bytes leave 16 at the end of the slab.
    char *block = alloc(1000);
    char *slab = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(block) & ~(uintptr_t)(PAGE_BYTES - 1));
    EXPECT_DEATH(hak_free(slab + 65 * 1008), report("never_returned", slab + 65 * 1008));
    // A block of the slab that was never handed out.
    char *never = block == slab + 64 * 1008 ? slab : slab + 64 * 1008;
    EXPECT_DEATH(hak_free(never), report("(never_returned|double_free)", never));
    hak_free(block);
}

// In slabs whose block size is a multiple of 128 the first block lies at different offsets (sizeclass.h, colours).
TEST_F(ValidateDeathTest, BeforeTheFirstBlock)
{
    std::vector<char *> blocks;
    char *page = nullptr;
    for (int i = 0; i < 1000 && page == nullptr; i++) {
        char *block = blocks.emplace_back(alloc(384));
        auto *around = static_cast<struct superslab *>(pagemap_descriptor(block));
        struct slab *slab = superslab_slab_of(around, block);
        if (slab_colour(slab) != 0) page = superslab_page_start(around, slab);
    }
    ASSERT_NE(page, nullptr);
    EXPECT_DEATH(hak_free(page), report("never_returned", page));
    for (char *block : blocks) hak_free(block);
}

TEST_F(ValidateDeathTest, AWriteAfterFreeIsFoundAtTheNextMalloc)
{
    for (size_t size : {16u, 100u, 5000u}) {
        char *first = alloc(size), *second = alloc(size);
        int on_stack = 0;
        EXPECT_DEATH(
            {
                hak_free(second);
                hak_free(first);
                *reinterpret_cast<void **>(first) = reinterpret_cast<void *>(0x4141414141414140);
                hak_malloc(size);
                hak_malloc(size);
            },
            "hakmem: failfast: next_link_range: .*address 0x4141414141414140");
        EXPECT_DEATH(
            {
                hak_free(second);
                hak_free(first);
                *reinterpret_cast<uintptr_t *>(first) += 1;
                hak_malloc(size);
                hak_malloc(size);
            },
            report("head_alignment", second + 1));
        EXPECT_DEATH(
            {
                hak_free(first);
                *reinterpret_cast<void **>(first) =
                    reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(&on_stack) & ~(uintptr_t)15);
                hak_malloc(size);
                hak_malloc(size);
            },
            "hakmem: failfast: next_link_range: ");
        hak_free(first);
        hak_free(second);
    }
}

TEST_F(ValidateDeathTest, AWriteAfterFreeIntoAnotherBlocksMiddle)
{
    char *first = alloc(100), *second = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(second);
            hak_free(first);
            *reinterpret_cast<char **>(first) = second + 16;
            hak_malloc(100);
            hak_malloc(100);
        },
        report("next_link_range", second + 16));
    hak_free(first);
    hak_free(second);
}

TEST_F(ValidateDeathTest, ALinkToALiveBlockIsNotHandedOut)
{
    char *first = alloc(100), *second = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(first);
            *reinterpret_cast<char **>(first) = second; // live
            hak_malloc(100);
            hak_malloc(100);
        },
        report("handed_out_twice", second));
    hak_free(first);
    hak_free(second);
}

TEST_F(ValidateDeathTest, ALinkToAnotherHeapsBlockIsNotHandedOut)
{
    char *first = alloc(100), *of_another = nullptr;
    test::in_thread([&] { of_another = alloc(100); });
    EXPECT_DEATH(
        {
            hak_free(first);
            *reinterpret_cast<char **>(first) = of_another;
            hak_malloc(100);
            hak_malloc(100);
        },
        "hakmem: failfast: next_link_range: (.|\n)*a bin holds a block of another heap");
    hak_free(first);
    hak_free(of_another);
}

TEST_F(ValidateDeathTest, ARunThatIsLiveIsNotHandedOut)
{
    EXPECT_DEATH(
        {
            char *run = alloc(100000);
            auto *around = static_cast<struct superslab *>(pagemap_descriptor(run));
            hak_free(run);
            for (size_t i = 0; i < SUPERSLAB_BYTES / GRANULE_BYTES / 64; i++) around->live_bits[i] = ~(uint64_t)0;
            hak_malloc(100000);
        },
        "hakmem: failfast: handed_out_twice: ");
}

TEST_F(ValidateDeathTest, ACircleInAFreeList)
{
    char *block = alloc(100);
    EXPECT_DEATH(
        {
            hak_free(block);
            *reinterpret_cast<char **>(block) = block;
            hak_malloc(100);
            hak_malloc(100);
        },
        report("handed_out_twice", block));
    hak_free(block);
}

TEST_F(ValidateDeathTest, AMagazineOfAnotherClassDoesNotGoBack)
{
    const uint32_t c = sizeclass_of(2048);
    std::vector<char *> blocks(2 * sizeclass_credit(c) + 1);
    for (char *&block : blocks) block = alloc(2048);
    char *other = alloc(500);
    EXPECT_DEATH(
        {
            for (char *block : blocks) hak_free(block);
            block *magazine = tcache_self()->heap->parking[c].magazines;
            link_set(&magazine->next_magazine, (block *)other);
            hak_purge();
        },
        report("next_link_range", other));
    for (char *block : blocks) hak_free(block);
    hak_free(other);
}

// A list that another thread posts: every link is checked, up to the address behind the slab's last block, and the last
// one ends the list.
TEST_F(ValidateDeathTest, APostedListThatIsWrong)
{
    char *first = alloc(384), *second = alloc(384), *elsewhere = alloc(5000);
    auto *around = static_cast<struct superslab *>(pagemap_descriptor(first));
    struct slab *slab = superslab_slab_of(around, first);
    ASSERT_EQ(superslab_slab_of(around, second), slab);
    auto post = [&](char *last_link, char *first_link) {
        memcpy(first, &first_link, sizeof first_link);
        memcpy(second, &last_link, sizeof last_link);
        validate_remote(slab, reinterpret_cast<struct block *>(first), 2);
    };
    char *behind = static_cast<char *>(slab_start(around, slab)) + (size_t)slab->capacity * 384;
    post(nullptr, second);
    EXPECT_DEATH(post(first, second), "remote_link: .*the list continues beyond its count");
    for (char *wrong : {behind, elsewhere, second + GRANULE_BYTES, static_cast<char *>(nullptr)})
        EXPECT_DEATH(post(nullptr, wrong), "remote_link: .*the link leaves the slab");
    for (char *block : {first, second, elsewhere}) hak_free(block);
}

TEST_F(Validate, WhatIsAllowedPasses)
{
    for (size_t size : test::all_kinds_of_sizes()) {
        char *block = alloc(size);
        test::in_thread([&] { block = static_cast<char *>(hak_realloc(block, size + 1)); });
        hak_free(block);
        hak_free(nullptr);
    }
}

TEST_F(Validate, EveryKindHasANameAndAText)
{
    const struct {
        const char *name, *text;
    } kinds[] = {
#define X(name, text) {#name, text},
        FAILFAST_KINDS(X)
#undef X
    };
    for (auto [name, text] : kinds) {
        EXPECT_GT(strlen(name), 2u);
        EXPECT_GT(strlen(text), 10u);
    }
}
