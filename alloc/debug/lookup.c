/* lookup.c: see lookup.h. */
#include "debug/lookup.h"

#include "heap/huge.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
#include "superslab/superslab.h"

static struct lookup in_slab(struct superslab *superslab, const void *address, uint32_t tag)
{
    const struct slab *slab = superslab_slab_of(superslab, address);
    struct lookup found = {
        .kind = RECORD_KIND_slab, .class_index = tag & TAG_CLASS_MASK, .owner_id = tag >> TAG_OWNER_SHIFT};
    char *first = slab_start(superslab, slab);
    found.bytes = sizeclass_bytes(found.class_index);
    if ((const char *)address < first || found.bytes == 0) return found;
    size_t index = (size_t)((const char *)address - first) / found.bytes;
    if (index >= slab->capacity) return found;
    found.start = first + index * found.bytes;
    found.live = validate_is_live(found.start);
    return found;
}

static struct lookup in_superslab(struct superslab *superslab, const void *address)
{
    uint32_t tag = pagemap_tag(address);
    if (tag >> TAG_OWNER_SHIFT != 0) return in_slab(superslab, address, tag);
    uint32_t page = (uint32_t)((uintptr_t)address % SUPERSLAB_BYTES / PAGE_BYTES);
    for (uint32_t back = 0; back <= page && back < RUN_PAGES_MAX; back++) {
        const struct slab *run = &superslab->slabs[page - back];
        char *start = superslab_page_start(superslab, run);
        tag = pagemap_tag(start);
        if (tag == CLASS_RUN && run->page_count > back)
            return (struct lookup){.kind = RECORD_KIND_run,
                                   .start = start,
                                   .class_index = CLASS_RUN,
                                   .bytes = (size_t)run->page_count * PAGE_BYTES,
                                   .live = validate_is_live(start)};
        if (tag != 0) break;
    }
    return (struct lookup){.kind = RECORD_KIND_free};
}

struct lookup heap_lookup(const void *address)
{
    struct superslab *superslab = pagemap_descriptor(address);
    const void *slot = (const void *)((uintptr_t)address & -(uintptr_t)SUPERSLAB_BYTES);
    if (superslab != NULL && pagemap_tag(slot) != CLASS_HUGE) return in_superslab(superslab, address);
    struct lookup found = {.kind = RECORD_KIND_huge, .class_index = CLASS_HUGE, .live = true};
    if (huge_find(address, &found.start, &found.bytes)) return found;
    return (struct lookup){.kind = RECORD_KIND_none};
}
