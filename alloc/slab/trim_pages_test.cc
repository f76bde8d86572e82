// trim_pages_test.cc: a law of a purge: afterwards a page of a slab has memory only if a live block lies on it. It holds for
// each size class and in each state of a slab: carved in part, also around its end, trimmed before, full meanwhile, and begun
// on pages that another slab had.
#include "heap/heap_test_support.h"

#include <sys/mman.h>

#include <map>

extern "C" {
#include "os/os.h"
#include "slab/slab.h"
#include "slab/trim.h"
}

namespace {

class TrimPages : public test::HeapTest {
  protected:
    // A trim leaves a slab alone whose free blocks would not fill a page of the system.
    static bool is_looked_at(const slab &each, size_t size)
    {
        return (each.carved_count - each.used_count) * size >= os_page_bytes();
    }

    // How many pages of this class's slabs have memory, and no live block on them.
    static size_t idle_pages(const std::vector<char *> &live, size_t size)
    {
        const size_t os_bytes = os_page_bytes();
        std::map<slab *, std::vector<bool>> has_block; // by the pages of the slab
        const auto pages_of = [&](slab *of) -> std::vector<bool> & {
            std::vector<bool> &pages = has_block[of];
            pages.resize(of->page_count * size_t{PAGE_BYTES} / os_bytes);
            return pages;
        };
        for (char *block : live) {
            slab *of = slab_of(block);
            const auto first = static_cast<size_t>(block - superslab_page_start(superslab_of(of), of));
            for (size_t page = first / os_bytes; page <= (first + size - 1) / os_bytes; page++)
                pages_of(of)[page] = true;
        }
        size_t idle = 0;
        slab *const first = tcache_self()->heap->owner.slabs[sizeclass_of(size)];
        for (slab *each = first; each != nullptr; each = each->next == first ? nullptr : each->next) {
            if (!is_looked_at(*each, size)) continue;
            char *start = superslab_page_start(superslab_of(each), each);
            const char *end = slab_start(superslab_of(each), each) + each->capacity * size;
            const std::vector<bool> &pages = pages_of(each);
            std::vector<unsigned char> resident(pages.size());
            EXPECT_EQ(mincore(start, pages.size() * os_bytes, resident.data()), 0);
            for (size_t page = 0; page < pages.size() && start + page * os_bytes < end; page++)
                idle += !pages[page] && (resident[page] & 1) != 0;
        }
        return idle;
    }
};

} // namespace

TEST_F(TrimPages, OnlyPagesWithLiveBlocksHaveMemoryAfterAPurge)
{
    SKIP_UNDER_SANITIZER("its own memory hides what goes back");
    test::Rng rng(11);
    for (uint32_t c = 1; c < CLASS_ALIGNED_FIRST; c += VALIDATE ? 3 : 2) {
        const size_t size = sizeclass_bytes(c), in_slab = sizeclass_slab_pages(c) * size_t{PAGE_BYTES} / size;
        std::vector<char *> live;
        for (int round = 0; round < 12; round++) {
            // From a few blocks of one slab to a few slabs; each third round fills what is there, block by block.
            const size_t more = round % 3 == 2 ? 2 * in_slab : 1 + rng.below(round % 3 == 0 ? in_slab : 3 * in_slab);
            for (size_t i = 0; i < more; i++) {
                live.push_back(static_cast<char *>(hak_malloc(size)));
                ASSERT_NE(live.back(), nullptr);
                memset(live.back(), 1, size);
            }
            std::sort(live.begin(), live.end());
            const size_t one_in = size_t{1} << rng.below(10); // of neighbours
            const size_t offset = rng.below(one_in);
            std::vector<char *> kept;
            for (size_t i = 0; i < live.size(); i++) {
                if (i % one_in == offset) kept.push_back(live[i]);
                else hak_free(live[i]);
            }
            live.swap(kept);
            hak_purge();
            EXPECT_EQ(idle_pages(live, size), 0u) << size << " bytes, round " << round;
            if (HasFailure()) break;
        }
        for (char *block : live) hak_free(block);
        if (HasFailure()) return;
    }
}
