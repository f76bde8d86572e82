// overcommit_test.cc: a block that the system would not let a program map is refused, and is not given to be killed for later.
#include "base/test_support.h"

#include <sys/mman.h>

#include "hakmem/hakmem.h"

namespace {

// What the system says to a mapping of this size for reading and writing. Under the heuristic (vm.overcommit_memory 0) it refuses a
// mapping above all memory and swap. Nothing of it is touched here.
bool system_gives(size_t bytes)
{
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start != MAP_FAILED && munmap(start, bytes) == 0;
}

struct hak_heap *overcommit_heap;

const struct {
    const char *name;
    void *(*alloc)(size_t bytes);
} WAYS[] = {
    {"malloc", hak_malloc},
    {"calloc", [](size_t bytes) { return hak_calloc(1, bytes); }},
    {"aligned_alloc", [](size_t bytes) { return hak_aligned_alloc(64 << 20, bytes); }},
    {"realloc of a small block", [](size_t bytes) { return hak_realloc(hak_malloc(100), bytes); }},
    {"realloc of a huge block", [](size_t bytes) { return hak_realloc(hak_malloc(4 << 20), bytes); }},
    {"hak_heap_malloc", [](size_t bytes) { return hak_heap_malloc(overcommit_heap, bytes); }},
};

} // namespace

TEST(Overcommit, TheSystemJudgesEachBlock)
{
    SKIP_UNDER_SANITIZER("its runtime maps memory of its own for each block");
    bool refused = false;
    for (const auto &way : WAYS)
        EXPECT_TRUE(test::in_child([&] {
            overcommit_heap = hak_heap_new();
            for (size_t bytes = size_t{1} << 28; bytes < size_t{1} << 46; bytes += bytes / 2) {
                const bool gives = system_gives(bytes);
                errno = 0;
                void *block = way.alloc(bytes);
                EXPECT_EQ(block != nullptr, gives) << way.name << " of " << (bytes >> 20) << " MiB";
                if (block == nullptr) EXPECT_EQ(errno, ENOMEM);
                hak_free(block);
            }
        }));
    for (size_t bytes = size_t{1} << 28; bytes < size_t{1} << 46; bytes *= 2) refused = refused || !system_gives(bytes);
    if (!refused) GTEST_SKIP() << "this system refuses no size (vm.overcommit_memory 1)";
}
