// pagemap_test.cc: tags and descriptors of a started map, and law 6 as far as the page map goes. cache/fresh_test.cc
// tests the map before start and the fallback window.
#include "base/test_support.h"

#include <cerrno>

extern "C" {
#include "base/sizeclass.h"
#include "hakmem/hakmem.h"
#include "os/os.h"
#include "superslab/pagemap.h"
}

namespace {

const void *address(uintptr_t value)
{
    return reinterpret_cast<const void *>(value);
}

} // namespace

TEST(PageMap, NullAndWhatIsNotOurs)
{
    EXPECT_EQ(pagemap_tag(nullptr), 0u);
    EXPECT_EQ(pagemap_tag_checked(nullptr), 0u);
    int on_the_stack = 0;
    EXPECT_EQ(pagemap_tag_checked(&on_the_stack), 0u);
    EXPECT_EQ(pagemap_tag_checked(address(1)), 0u);
    EXPECT_EQ(pagemap_descriptor(&on_the_stack), nullptr);
}

TEST(PageMap, AddressesBeyondTheMap)
{
    if (!pagemap_is_window()) {
        EXPECT_EQ(pagemap_tag_checked(address(((uintptr_t)1 << HAK_ADDRESS_BITS) - 1)), 0u);
    }
    for (uintptr_t value : {(uintptr_t)1 << HAK_ADDRESS_BITS, (uintptr_t)1 << 63, UINTPTR_MAX, UINTPTR_MAX - PAGE_BYTES,
                            (uintptr_t)0xdeadbeefdeadbeef}) {
        EXPECT_EQ(pagemap_tag_checked(address(value)), 0u);
        EXPECT_EQ(pagemap_descriptor(address(value)), nullptr);
    }
}

TEST(PageMap, TagsAreSetAndCleared)
{
    char *start = static_cast<char *>(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    ASSERT_TRUE(test::is_aligned(start, SUPERSLAB_BYTES));
    auto tags = [start] {
        std::vector<uint32_t> all;
        for (uint32_t page = 0; page < SUPERSLAB_PAGES; page++) {
            all.push_back(pagemap_tag(start + page * PAGE_BYTES));
            EXPECT_EQ(all.back(), pagemap_tag_checked(start + (page + 1) * PAGE_BYTES - 1));
        }
        return all;
    };
    std::vector<uint32_t> expected(SUPERSLAB_PAGES, 0);
    EXPECT_EQ(tags(), expected);
    pagemap_tag_set(start, SUPERSLAB_PAGES, 0xabcdef12);
    std::fill(expected.begin(), expected.end(), 0xabcdef12);
    EXPECT_EQ(tags(), expected);
    pagemap_tag_set(start + 3 * PAGE_BYTES, 4, 7);
    std::fill(expected.begin() + 3, expected.begin() + 7, 7);
    EXPECT_EQ(tags(), expected);
    EXPECT_EQ(pagemap_tag_checked(start - 1), 0u);
    EXPECT_EQ(pagemap_tag_checked(start + SUPERSLAB_BYTES), 0u);
    pagemap_tag_set(start, SUPERSLAB_PAGES, 0);
    EXPECT_EQ(tags(), std::vector<uint32_t>(SUPERSLAB_PAGES, 0));
    EXPECT_EQ(os->release(start, SUPERSLAB_BYTES), 0);
}

TEST(PageMap, DescriptorsReachFourMebibytes)
{
    char *start = static_cast<char *>(pagemap_reserve(2 * SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    int first = 0, second = 0;
    pagemap_descriptor_set(start, &first);
    EXPECT_EQ(pagemap_descriptor(start), &first);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES - 1), &first);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES), nullptr);
    EXPECT_EQ(pagemap_descriptor(start - 1), nullptr);
    pagemap_descriptor_set(start + SUPERSLAB_BYTES, &second);
    pagemap_descriptor_set(start, nullptr);
    EXPECT_EQ(pagemap_descriptor(start), nullptr);
    EXPECT_EQ(pagemap_descriptor(start + SUPERSLAB_BYTES), &second);
    pagemap_descriptor_set(start + SUPERSLAB_BYTES, nullptr);
    EXPECT_EQ(os->release(start, 2 * SUPERSLAB_BYTES), 0);
}

TEST(PageMap, ReserveRefusesWhatCannotBe)
{
    EXPECT_EQ(pagemap_reserve((size_t)1 << 60, SUPERSLAB_BYTES), nullptr);
    EXPECT_EQ(pagemap_reserve(SUPERSLAB_BYTES, (size_t)1 << 60), nullptr);
}

// Address space whose part of the map cannot be had is given back.
TEST(PageMap, WhatCannotBeEnteredIsGivenBack)
{
    static const os_ops *inner;
    static int reserved, refused;
    inner = os;
    reserved = refused = 0;
    os_ops refusing = *os;
    refusing.reserve = [](void *wanted, size_t bytes, size_t align_bytes) {
        void *start = inner->reserve(wanted, bytes, align_bytes);
        reserved += start != nullptr;
        return start;
    };
    refusing.release = [](void *start, size_t bytes) {
        reserved--;
        return inner->release(start, bytes);
    };
    refusing.commit = [](void *, size_t) {
        refused++;
        return ENOMEM;
    };
    std::vector<void *> given;
    os = &refusing;
    while (refused == 0 && given.size() < 1000) given.push_back(pagemap_reserve(SUPERSLAB_BYTES, SUPERSLAB_BYTES));
    os = inner;
    ASSERT_EQ(refused, 1) << "the map has all of its pages";
    EXPECT_EQ(given.back(), nullptr);
    given.pop_back();
    EXPECT_EQ(reserved, (int)given.size());
    for (void *start : given) EXPECT_EQ(os->release(start, SUPERSLAB_BYTES), 0);
}

TEST(PageMap, WhatTheHeapEnters)
{
    char *small = static_cast<char *>(hak_malloc(100));
    ASSERT_NE(small, nullptr);
    EXPECT_EQ(pagemap_tag(small) & TAG_CLASS_MASK, sizeclass_of(100));
    EXPECT_NE(pagemap_tag(small) >> TAG_OWNER_SHIFT, 0u);
    EXPECT_NE(pagemap_descriptor(small), nullptr);
    hak_free(small);

    char *run = static_cast<char *>(hak_malloc(3 * PAGE_BYTES));
    ASSERT_NE(run, nullptr);
    EXPECT_EQ(pagemap_tag(run), (uint32_t)CLASS_RUN);
    EXPECT_EQ(pagemap_tag(run + PAGE_BYTES), 0u) << "the first page only";
    hak_free(run);
    EXPECT_EQ(pagemap_tag(run), 0u);

    char *huge = static_cast<char *>(hak_malloc(3 * SUPERSLAB_BYTES));
    ASSERT_NE(huge, nullptr);
    EXPECT_EQ(pagemap_tag(huge), (uint32_t)CLASS_HUGE);
    EXPECT_EQ(pagemap_tag(huge + PAGE_BYTES), 0u);
    EXPECT_NE(pagemap_descriptor(huge), nullptr);
    hak_free(huge);
    EXPECT_EQ(pagemap_tag(huge), 0u);
    EXPECT_EQ(pagemap_descriptor(huge), nullptr);
}
