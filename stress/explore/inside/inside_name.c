/* inside_name.c: names for the words that the allocator accesses, for the explorer's reports. Nothing else runs
 * then. */
#include <stdio.h>

#include "cache/tcache.h"
#include "explore/inside/inside.h"
#include "slab/owner.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

struct search {
    uintptr_t address;
    char *name;
    size_t name_bytes;
    uint32_t superslabs;
    bool found;
};

struct field {
    const char *name;
    size_t offset, bytes;
};

#define FIELD(type, field) {#field, offsetof(type, field), sizeof(((type *)0)->field)}

static const struct field superslab_fields[] = {
    FIELD(struct superslab, free_pages),
    FIELD(struct superslab, dirty_pages),
    FIELD(struct superslab, cold_pages),
    FIELD(struct superslab, base),
};
static const struct field slab_fields[] = {FIELD(struct slab, used_count), FIELD(struct slab, remote)};
static const struct field heap_fields[] = {FIELD(struct heap, owner.pending), FIELD(struct heap, rest)};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *field_at(const struct field *fields, size_t count, size_t offset)
{
    for (size_t i = 0; i < count; i++)
        if (offset >= fields[i].offset && offset - fields[i].offset < fields[i].bytes) return fields[i].name;
    return "?";
}

static void in_superslab(struct superslab *superslab, void *context)
{
    struct search *search = context;
    const uint32_t index = search->superslabs++;
    const uintptr_t start = (uintptr_t)superslab, offset = search->address - start;
    const uintptr_t live = (uintptr_t)superslab->live_bits;
    if (search->address >= live && search->address - live < SUPERSLAB_BYTES / GRANULE_BYTES / 8) {
        search->found = true;
        snprintf(search->name, search->name_bytes, "superslab %u: marks of live blocks, page %zu", index,
                 (size_t)(search->address - live) * 8 / (PAGE_BYTES / GRANULE_BYTES));
    }
    if (search->address < start || offset >= sizeof *superslab) return;
    search->found = true;
    if (offset < offsetof(struct superslab, slabs)) {
        snprintf(search->name, search->name_bytes, "superslab %u: %s", index,
                 field_at(superslab_fields, COUNT(superslab_fields), offset));
        return;
    }
    const size_t beyond = offset - offsetof(struct superslab, slabs);
    const size_t page = beyond / sizeof(struct slab);
    snprintf(search->name, search->name_bytes, "superslab %u, slab at page %zu: %s", index, page,
             field_at(slab_fields, COUNT(slab_fields), beyond % sizeof(struct slab)));
}

static bool in_heap(struct search *search)
{
    for (uint32_t id = 1; id <= owner_count(); id++) {
        const uintptr_t start = (uintptr_t)owner_with_id(id);
        if (start == 0 || search->address < start || search->address - start >= sizeof(struct heap)) continue;
        snprintf(search->name, search->name_bytes, "heap %u: %s", id,
                 field_at(heap_fields, COUNT(heap_fields), search->address - start));
        return true;
    }
    return false;
}

/* Names in the tables of the page map: the tag of a page, the descriptor of a superslab. */
static bool in_pagemap(struct search *search)
{
    const uintptr_t tags = (uintptr_t)atomic_load_explicit(&pagemap_tags, memory_order_relaxed);
    const uintptr_t tags_bytes = sizeof(pagemap_tag_cell) << (HAK_ADDRESS_BITS - PAGE_SHIFT);
    const uintptr_t offset = search->address - tags;
    if (search->address < tags || offset >= tags_bytes + (sizeof(void *) << (HAK_ADDRESS_BITS - SUPERSLAB_SHIFT)))
        return false;
    if (offset < tags_bytes) {
        snprintf(search->name, search->name_bytes, "page map: tag of %p",
                 (void *)(offset / sizeof(pagemap_tag_cell) << PAGE_SHIFT));
    } else {
        snprintf(search->name, search->name_bytes, "page map: descriptor of %p",
                 (void *)((offset - tags_bytes) / sizeof(void *) << SUPERSLAB_SHIFT));
    }
    return true;
}

bool inside_name(const volatile void *address, char *name, size_t name_bytes)
{
    struct search search = {.address = (uintptr_t)address, .name = name, .name_bytes = name_bytes};
    if (in_pagemap(&search) || in_heap(&search)) return true;
    pool_for_each(in_superslab, &search);
    return search.found;
}
