/* lookup.c: see lookup.h. */
#include "debug/lookup.h"

#include "heap/huge.h"
#include "os/peek.h"
#include "slab/slab.h"
#include "slab/validate.h"
#include "superslab/pagemap.h"
#include "superslab/superslab.h"

const char *const lookup_kind_names[] = {
    [RECORD_KIND_none] = "no memory of the heap", [RECORD_KIND_free] = "a page that is free",
    [RECORD_KIND_slab] = "a small block",         [RECORD_KIND_run] = "a page run",
    [RECORD_KIND_huge] = "a huge block",          [RECORD_KIND_guard] = "a sampled block",
};

enum reading { READ_DIRECTLY, READ_BY_PEEK };

/* The members of a descriptor that stay as they are while its slab or run is in use. */
struct shape {
    uint32_t page_offset, page_count, class_index, capacity;
};

static bool read_shape(const struct slab *slab, enum reading reading, struct shape *shape)
{
    struct slab copy;
    if (reading == READ_BY_PEEK) {
        if (!os_peek(slab, &copy, sizeof copy)) return false;
        slab = &copy;
    }
    *shape = (struct shape){slab->page_offset, slab->page_count, slab->class_index, slab->capacity};
    return true;
}

/* False if the members make no sense, as they may while the page changes hands. */
static bool slab_shape(const struct superslab *superslab, uint32_t page, enum reading reading, struct shape *shape,
                       uint32_t *first)
{
    if (!read_shape(&superslab->slabs[page], reading, shape)) return false;
    uint32_t back = shape->page_offset;
    if (back > page || (back != 0 && !read_shape(&superslab->slabs[page - back], reading, shape))) return false;
    *first = page - back;
    return shape->page_count > back && shape->page_count <= SUPERSLAB_PAGES - *first;
}

static void find_live(struct lookup *found, enum reading reading)
{
    if (!VALIDATE) return;
    if (reading == READ_DIRECTLY) found->live = validate_is_live(found->superslab, found->start);
}

static void in_slab(const struct superslab *superslab, uint32_t page, uint32_t tag, const char *address,
                    enum reading reading, struct lookup *found)
{
    uint32_t class_index = tag_slab_class(tag), first;
    struct shape shape;
    if (class_index == CLASS_EMPTY || !slab_shape(superslab, page, reading, &shape, &first) ||
        shape.class_index != class_index || shape.capacity == 0)
        return;
    found->kind = RECORD_KIND_slab;
    found->class_index = class_index;
    found->owner_id = tag >> TAG_OWNER_SHIFT;
    found->is_own = found->owner_id == 0;
    found->bytes = sizeclass_bytes(class_index);
    found->first_page = first;
    found->page_count = shape.page_count;
    /* Reads nothing of the slab itself, since its owner may be making it now. */
    found->slab_start = superslab_base(superslab) + (size_t)first * PAGE_BYTES + slab_colour_at(first, class_index);
    found->slab_capacity = shape.capacity;
    if (address < found->slab_start) return;
    size_t index = (size_t)(address - found->slab_start) / found->bytes;
    if (index >= shape.capacity) return;
    found->start = found->slab_start + index * found->bytes;
    find_live(found, reading);
}

/* Only the first page of a run has a tag, so this searches backwards for it. */
static void in_run(const struct superslab *superslab, uint32_t page, enum reading reading, struct lookup *found)
{
    for (uint32_t back = 0; back <= page; back++) {
        uint32_t first = page - back;
        char *start = superslab_base(superslab) + (size_t)first * PAGE_BYTES;
        uint32_t tag = pagemap_tag_checked(start);
        if (tag == 0) continue;
        struct shape shape;
        if (!tag_is_run(tag) || !read_shape(&superslab->slabs[first], reading, &shape)) return;
        if (shape.page_count <= back || shape.page_count > RUN_PAGES_MAX) return;
        found->kind = RECORD_KIND_run;
        found->class_index = CLASS_RUN;
        found->is_own = tag == CLASS_OWN;
        found->start = start;
        found->bytes = (size_t)shape.page_count * PAGE_BYTES;
        found->first_page = first;
        found->page_count = shape.page_count;
        found->live = true; /* a freed run loses its tag at once */
        find_live(found, reading);
        return;
    }
}

static struct lookup look_up(const void *address, enum reading reading)
{
    struct lookup found = {.kind = RECORD_KIND_none};
    char *slot = (char *)((uintptr_t)address & -(uintptr_t)SUPERSLAB_BYTES);
    const struct superslab *superslab = pagemap_descriptor(address);
    if (superslab == NULL) {
        struct lookup huge = {.kind = RECORD_KIND_huge, .class_index = CLASS_HUGE, .live = true};
        if (!huge_find(address, &huge.start, &huge.bytes)) return found;
        huge.is_own = pagemap_tag_checked(huge.start) == CLASS_OWN_HUGE;
        return huge;
    }
    if (superslab_base(superslab) != slot) return found; /* it is losing its address space */
    found.kind = RECORD_KIND_free;
    found.superslab = superslab;
    uint32_t page = (uint32_t)((uintptr_t)address % SUPERSLAB_BYTES / PAGE_BYTES);
    uint32_t tag = pagemap_tag_checked(address);
    if (tag == 0 || tag_is_run(tag)) in_run(superslab, page, reading, &found);
    else in_slab(superslab, page, tag, address, reading, &found);
    return found;
}

struct lookup heap_lookup(const void *address)
{
    return look_up(address, READ_DIRECTLY);
}

struct lookup heap_lookup_any(const void *address)
{
    return look_up(address, READ_BY_PEEK);
}
