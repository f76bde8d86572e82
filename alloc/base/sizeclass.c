/* sizeclass.c: the parts of sizeclass.h that no hit path calls, and the table that they read. */
#include "base/sizeclass.h"

/* EIGHT(first, width, class): eight classes from class on, of width granules each. */
#define ONE(first, width, class) [(first)...(first) + (width) - 1] = (class)
#define TWO(first, width, class) ONE(first, width, class), ONE((first) + (width), width, (class) + 1)
#define FOUR(first, width, class) TWO(first, width, class), TWO((first) + 2 * (width), width, (class) + 2)
#define EIGHT(first, width, class) FOUR(first, width, class), FOUR((first) + 4 * (width), width, (class) + 4)

const uint8_t sizeclass_table[] = {
    // clang-format off
    [0] = CLASS_EMPTY,
    EIGHT(1, 1, 1),   EIGHT(9, 1, 9),   EIGHT(17, 1, 17), EIGHT(25, 1, 25),
    EIGHT(33, 1, 33), EIGHT(41, 1, 41), EIGHT(49, 1, 49), EIGHT(57, 1, 57), /* to 1 KiB */
    EIGHT(65, 8, 65),      /* to 2 KiB */
    EIGHT(129, 16, 73),    /* to 4 KiB */
    EIGHT(257, 32, 81),    /* to 8 KiB */
    EIGHT(513, 64, 89),    /* to 16 KiB */
    EIGHT(1025, 128, 97),  /* to 32 KiB */
    // clang-format on
};

uint32_t sizeclass_of_aligned(size_t size_bytes, size_t align_bytes)
{
    /* A slab without colours starts at a multiple of every align_bytes that is allowed, and its blocks lie at multiples
     * of their size. So any class whose size is a multiple of align_bytes will do, as that of a multiple of align_bytes
     * is: the classes of an octave are the multiples of a power of two; if that is below align_bytes, rounded is itself
     * a class. Colours are whole cache lines, so they keep alignments up to one line; larger ones of small sizes use the
     * classes without colours. */
    size_t rounded = round_up(size_bytes > 0 ? size_bytes : 1, align_bytes);
    if (align_bytes > CACHE_LINE_BYTES && rounded <= SMALL_LINEAR_BYTES_MAX)
        return (uint32_t)(CLASS_ALIGNED_FIRST + rounded / COLOURED_STEP_BYTES - 1);
    return sizeclass_of(rounded);
}
