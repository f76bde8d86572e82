// os_pages_test.cc: the heap where the system has pages of 16 or 64 KiB, and where it hands out addresses beyond the page
// map, as with 5-level page tables. Each test runs in a child whose heap has not started (cache/fresh_test.cc).
#include "heap/heap_test_support.h"

#include <fcntl.h>
#include <unistd.h>

#include <stdio.h>

#include <random>

extern "C" {
#include "os/os.h"
#include "os/os_pages.h"
#include "superslab/pagemap.h"
}

namespace {

// What the process has in memory, as if its anonymous mappings had pages of page_bytes: such a page counts whole if any
// part of it is there.
size_t resident_bytes(size_t page_bytes)
{
    const size_t own_bytes = (size_t)sysconf(_SC_PAGESIZE), parts = page_bytes / own_bytes;
    const int pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    size_t total = 0, last = 0;
    while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
        uintptr_t start, end;
        unsigned long inode = 1;
        if (sscanf(line, "%lx-%lx rw-p %*s %*s %lu", &start, &end, &inode) != 3 || inode != 0) continue;
        for (uintptr_t at = start; at < end; at += own_bytes) {
            uint64_t entry = 0;
            const size_t page = at / own_bytes / parts + 1;
            if (page == last) continue;
            if (pread(pages, &entry, sizeof entry, (off_t)(at / own_bytes * sizeof entry)) == sizeof entry &&
                entry >> 63 != 0)
                total += page_bytes, last = page;
        }
    }
    if (maps != nullptr) fclose(maps);
    close(pages);
    return total;
}

void bounds_hold(size_t page_bytes)
{
    os_pages_install(page_bytes);
    EXPECT_EQ(os_page_bytes(), page_bytes);
    std::vector<void *> blocks = {hak_valloc(1), hak_pvalloc(1)};
    EXPECT_TRUE(test::is_aligned(blocks[0], page_bytes));
    EXPECT_EQ(hak_malloc_usable_size(blocks[1]), page_bytes);
    blocks.reserve(1 << 20);
    hak_free(hak_malloc(1));
    const size_t before = resident_bytes(page_bytes);

    // A block of each class touches one page, and its slab's descriptor.
    for (size_t size = 16; size <= SMALL_BYTES_MAX; size = size < 1024 ? size + 16 : size + size / 8)
        blocks.push_back(memset(hak_malloc(size), 1, size));
    EXPECT_LE(resident_bytes(page_bytes) - before, blocks.size() * page_bytes + (2u << 20));

    size_t live = 0;
    std::mt19937_64 random(test::seed());
    while (live < 32u << 20) {
        const size_t size = 16 + random() % (random() % 64 == 0 ? 200000 : 2000);
        blocks.push_back(memset(hak_malloc(size), 1, size));
        live += size;
    }
    EXPECT_LE(resident_bytes(page_bytes) - before, live + live / 4 + (8u << 20));

    for (void *block : blocks) hak_free(block);
    hak_purge();
    EXPECT_LE(resident_bytes(page_bytes) - before, 4u << 20);
    test::expect_at_rest();
}

const os_ops *below;
void *beyond, *released;

void *map_beyond(void *at, size_t size_bytes, size_t align_bytes)
{
    return at == nullptr ? beyond : below->map(at, size_bytes, align_bytes);
}

int release_beyond(void *start, size_t size_bytes)
{
    if (start != beyond) return below->release(start, size_bytes);
    released = start;
    return 0;
}

} // namespace

TEST(OsPages, SixteenKib)
{
    if (SANITIZED) GTEST_SKIP() << "the shadow of a sanitizer counts as memory too";
    EXPECT_TRUE(test::in_child([] { bounds_hold(16 << 10); }));
}

TEST(OsPages, SixtyFourKib)
{
    if (SANITIZED) GTEST_SKIP() << "the shadow of a sanitizer counts as memory too";
    EXPECT_TRUE(test::in_child([] { bounds_hold(64 << 10); }));
}

// mmap gives addresses above 47 bits for a hint alone. If a system gave one without, it goes back, and malloc fails.
TEST(OsPages, AddressesOfFiveLevels)
{
    EXPECT_TRUE(test::in_child([] {
        void *kept = hak_malloc(100);
        ASSERT_FALSE(pagemap_is_window());
        static os_ops five_levels = *os;
        below = os;
        five_levels.map = map_beyond;
        five_levels.release = release_beyond;
        os = &five_levels;
        for (int bits = HAK_ADDRESS_BITS; bits < 57; bits++) {
            beyond = (void *)(((uintptr_t)1 << bits) + SUPERSLAB_BYTES);
            released = nullptr;
            errno = 0;
            EXPECT_EQ(hak_malloc(100u << 20), nullptr);
            EXPECT_EQ(errno, ENOMEM);
            EXPECT_EQ(released, beyond) << bits;
            EXPECT_EQ(hak_malloc_usable_size(beyond), 0u);
        }
        os = below;
        hak_free(kept);
        test::expect_at_rest();
    }));
}
