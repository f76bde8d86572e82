/* inspect.h: checks the heap's books against the laws named in alloc/README.md. For tests and the
 * debug-validation build; not a part of the release library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct inspect_report {
    const char *broken_law;  /* NULL: all hold */
    const void *address;     /* of the page or descriptor in question */
    uint32_t slab_count;     /* slabs seen */
    uint32_t empty_slab_count;
    uint32_t run_count;
    uint64_t used_blocks;    /* sum of the slabs' used counts */
    uint64_t live_blocks;    /* blocks that the program holds; 0 in a build without VALIDATE */
};

/* Walks everything and fills the report. No other thread may be in the allocator meanwhile, and
 * those that are alive must have flushed (hak_purge) for used_blocks to equal live_blocks. Returns
 * true when every law holds. */
__attribute__((visibility("default"))) bool hak_inspect(struct inspect_report *report);
