// sweep_test.cc: the walk over all places of blocks, by which the exit of the process finds leaks and overruns.
#include "debug/frame_test_support.h"

#include <map>

extern "C" {
#include "debug/exit/sweep.h"
#include "slab/slab.h"
}

namespace test::frames {

class Sweep : public FrameTest {};

// Each place of each slab, from the first to the last, each run, and each huge block: once, and nothing else.
TEST_F(Sweep, ComesToEachPlaceOnce)
{
    for (size_t size : test::all_kinds_of_sizes()) {
        if (size <= SMALL_BYTES_MAX) size = sizeclass_bytes(size != 0 ? sizeclass_of(size) : 1);
        std::vector<char *> blocks, places;
        for (int i = 0; i < 3; i++) {
            blocks.push_back(static_cast<char *>(hak_malloc(size)));
            ASSERT_NE(blocks.back(), nullptr);
            places.push_back(blocks.back());
        }
        if (size <= SMALL_BYTES_MAX) {
            slab *of = slab_of(blocks[0]);
            for (size_t i = 0; i < of->capacity; i++) places.push_back(slab_start(superslab_of(of), of) + i * size);
        }
        std::map<char *, int> visits;
        sweep_each([](char *start, void *context) { ++(*static_cast<std::map<char *, int> *>(context))[start]; },
                   &visits);
        for (char *place : places) ASSERT_EQ(visits[place], 1) << size;
        for (const auto &[start, count] : visits) ASSERT_EQ(count, 1) << size;
        for (char *block : blocks) hak_free(block);
        hak_purge_all();
    }
}

} // namespace test::frames
