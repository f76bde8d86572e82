/* sizeclass.c: the part of sizeclass.h that is off the hit paths. */
#include "base/sizeclass.h"

uint32_t sizeclass_of_aligned(size_t size_bytes, size_t align_bytes)
{
    /* A slab starts at a multiple of every align_bytes in question and its blocks stand at
     * multiples of their size, so a class will do whose size is a multiple of align_bytes. Every
     * power of two up to SMALL_BYTES_MAX is a class, which bounds the loop. */
    size_t rounded = round_up(size_bytes > 0 ? size_bytes : 1, align_bytes);
    uint32_t class_index = sizeclass_of(rounded);
    while (sizeclass_bytes(class_index) % align_bytes != 0) class_index++;
    return class_index;
}
