/* heap_test_support.h: for tests of the heap as a whole: checks its laws after all blocks were freed. */
#pragma once

#include "base/test_support.h"

#include <fcntl.h>
#include <sys/resource.h>

extern "C" {
#include "base/config.h"
#include "base/sizeclass.h"
#include "cache/tcache.h"
#include "debug/inspect.h"
#include "hakmem/hakmem.h"
#include "superslab/pool.h"
}

namespace test {

// Expects every law to hold now. No other thread may be in the allocator.
inline hak_inspect_report inspected()
{
    hak_inspect_report report;
    EXPECT_TRUE(hak_inspect(&report)) << report.broken_law << " at " << report.address;
    return report;
}

// Flushes this thread and all orphans. Then expects every law to hold, and no block in use but the live ones.
inline void expect_at_rest(uint64_t live_small = 0, uint64_t live_runs = 0)
{
    hak_purge();
    hak_inspect_report report = inspected();
    EXPECT_EQ(report.used_blocks, live_small) << "blocks were lost";
    EXPECT_EQ(report.run_count, live_runs);
    if (VALIDATE) EXPECT_EQ(report.live_blocks, live_small + live_runs);
    if (live_small + live_runs == 0)
        EXPECT_LE(pool_figures().superslab_count, (uint32_t)EMPTY_SUPERSLABS_MIN) << "address space was lost";
}

// What a function writes to a stream.
inline std::string printed(void (*print)(FILE *))
{
    char *text = nullptr;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    print(stream);
    fclose(stream);
    std::string all(text, length);
    free(text);
    return all;
}

// Of the process, as RLIMIT_AS or RLIMIT_DATA counts it.
inline size_t mapped_bytes(int resource)
{
    char text[4096] = "";
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    EXPECT_GT(read(file, text, sizeof text - 1), 0);
    close(file);
    const char *line = strstr(text, resource == RLIMIT_AS ? "VmSize:" : "VmData:");
    EXPECT_NE(line, nullptr);
    return strtoull(line + 7, nullptr, 10) << 10;
}

inline size_t address_space_bytes()
{
    return mapped_bytes(RLIMIT_AS);
}

// RLIM_INFINITY: none.
inline void limit_address_space(size_t bytes)
{
    struct rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = bytes;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// One size of each kind: every class, runs, huge blocks.
inline std::vector<size_t> all_kinds_of_sizes()
{
    std::vector<size_t> sizes = {0, 1};
    for (uint32_t c = 1; c < CLASS_COUNT; c++) sizes.push_back(sizeclass_bytes(c));
    for (size_t pages : {1, 2, 5, 31, 32}) sizes.push_back(pages * PAGE_BYTES);
    sizes.push_back(RUN_BYTES_MAX + 1);
    sizes.push_back(2 * SUPERSLAB_BYTES + 1);
    return sizes;
}

// Blocks of each, with content, in each of the rounds.
inline void use_all_kinds_of_sizes(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        std::vector<std::pair<void *, size_t>> blocks;
        for (size_t size : all_kinds_of_sizes()) {
            void *block = hak_malloc(size);
            ASSERT_NE(block, nullptr);
            pattern_fill(block, size, size, size < 200000 ? 256 : 1 << 17);
            blocks.emplace_back(block, size);
        }
        for (auto [block, size] : blocks) {
            ASSERT_TRUE(pattern_holds(block, size, size, size < 200000 ? 256 : 1 << 17));
            hak_free(block);
        }
    }
}

// Gives the blocks of a bin to their slabs.
inline void empty_bin(uint32_t class_index)
{
    slab_give_back_each(std::exchange(tcache_self()->heads[class_index], nullptr));
}

// A test whose heap is at rest before and after.
class HeapTest : public testing::Test {
  protected:
    void SetUp() override { expect_at_rest(); }
    void TearDown() override { expect_at_rest(); }
};

} // namespace test
