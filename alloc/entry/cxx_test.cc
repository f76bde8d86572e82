// cxx_test.cc: hakmem.hpp: containers whose blocks come from where their allocator says, and go back there.
#include "heap/own_test_support.h"

#include <list>
#include <map>
#include <string>
#include <unordered_map>

#include "hakmem/hakmem.hpp"

namespace {

class Cxx : public test::OwnTest {};

struct alignas(128) Wide {
    int value;
};

template <class Vector> void fill_and_check(Vector &vector)
{
    for (int i = 0; i < 10000; i++) vector.push_back({i});
    for (int i = 0; i < 10000; i++) ASSERT_EQ(vector[(size_t)i].value, i);
    EXPECT_TRUE(test::is_aligned(vector.data(), alignof(typename Vector::value_type)));
}

TEST_F(Cxx, AllocatorOfTheCommonHeap)
{
    std::vector<Wide, hakmem::allocator<Wide>> wide;
    fill_and_check(wide);
    EXPECT_EQ(own_of(wide.data()), nullptr);
    EXPECT_GE(hak_malloc_usable_size(wide.data()), wide.size() * sizeof(Wide));
    std::map<int, std::string, std::less<int>, hakmem::allocator<std::pair<const int, std::string>>> map;
    for (int i = 0; i < 1000; i++) map[i * 7 % 1000] = std::to_string(i);
    EXPECT_EQ(map.size(), 1000u);
    EXPECT_TRUE(hakmem::allocator<int>() == hakmem::allocator<char>());
    EXPECT_THROW((void)hakmem::allocator<Wide>().allocate(SIZE_MAX / sizeof(Wide)), std::bad_array_new_length);
    EXPECT_THROW((void)hakmem::allocator<char>().allocate(PTRDIFF_MAX), std::bad_alloc);
}

TEST_F(Cxx, AllocatorOfAHeap)
{
    hakmem::heap heap, other;
    {
        std::vector<Wide, hakmem::heap_allocator<Wide>> wide{hakmem::heap_allocator<Wide>(heap.get())};
        fill_and_check(wide);
        EXPECT_EQ(own_of(wide.data()), heap.get());
        std::vector<Wide, hakmem::heap_allocator<Wide>> copy(wide, hakmem::heap_allocator<Wide>(other.get()));
        EXPECT_EQ(own_of(copy.data()), other.get());
        EXPECT_TRUE(wide.get_allocator() != copy.get_allocator());
        const Wide *data = wide.data();
        copy = std::move(wide); // takes the blocks, and the heap
        EXPECT_EQ(copy.data(), data);
        std::list<int, hakmem::heap_allocator<int>> list(copy.get_allocator());
        for (int i = 0; i < 100; i++) list.push_back(i);
        EXPECT_EQ(own_of(&list.back()), heap.get());
    }
    EXPECT_EQ(test::own_figures_of(heap.get()).used_bytes, 0u);
    hak_heap_limit_set(other.get(), test::MIB);
    EXPECT_THROW((void)hakmem::heap_allocator<char>(other.get()).allocate(2 * test::MIB), std::bad_alloc);
    hakmem::heap moved = std::move(heap);
    EXPECT_EQ(heap.get(), nullptr);
    moved = hakmem::heap();
}

TEST_F(Cxx, MemoryResources)
{
    hakmem::heap heap;
    hakmem::heap_resource resource(heap.get()), same(heap.get()), common(nullptr);
    EXPECT_TRUE(resource == same);
    EXPECT_FALSE(resource == common);
    EXPECT_TRUE(*hakmem::default_resource() == common);
    EXPECT_FALSE(resource == *std::pmr::new_delete_resource());
    // Never destroyed: all of it goes back with the heap.
    using Map = std::pmr::unordered_map<int, std::pmr::string>;
    auto *map = new (resource.allocate(sizeof(Map), alignof(Map))) Map(&resource);
    for (int i = 0; i < 1000; i++) (*map)[i] = std::pmr::string(100, 'x');
    EXPECT_EQ(own_of((*map)[500].data()), heap.get());
    EXPECT_GT(test::own_figures_of(heap.get()).used_bytes, 1000u * 100);
    heap.free_all();
    EXPECT_EQ(test::own_figures_of(heap.get()).used_bytes, 0u);
    std::pmr::vector<Wide> wide(&common);
    fill_and_check(wide);
    EXPECT_EQ(own_of(wide.data()), nullptr);
    void *block = resource.allocate(100, 4096);
    EXPECT_TRUE(test::is_aligned(block, 4096));
    resource.deallocate(block, 100, 4096);
}

} // namespace
