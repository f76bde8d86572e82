/* sanitizer_report.c: see sanitizer_report.h. It runs while the sanitizer handles an error, in one thread at a time. So
 * it uses one static buffer, takes no lock, allocates nothing, and reads memory that may not be mapped through the
 * kernel (debug/describe.h). */
/* unreached file: of the tree asan, whose tests reach it */
#include "debug/sanitizer_report.h"

#include "base/config.h"
#include "base/sizeclass.h"
#include "debug/describe.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/trace.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "report/settings.h"
#include "report/text.h"

enum { REPORT_BYTES = 8192 };

/* A block, or its program's part if it is framed. */
struct blamed {
    const char *start;
    size_t size_bytes; /* 0: not known */
    bool is_freed;
};

/* Describes the heap's block of this start and length. A framed block that was freed still has the copy at its end. */
static struct blamed blame(char *start, size_t bytes, bool is_huge)
{
    struct framed framed;
    if (VALIDATE && failfast_level() >= LEVEL_FRAMES && frame_peek(start, bytes, &framed))
        return (struct blamed){framed.user, framed.word.size_bytes, !sanitizer_is_open(framed.user)};
    bool is_open = sanitizer_is_open(start);
    size_t looked_bytes = is_huge && !is_open ? 0 : bytes;
    return (struct blamed){start, is_open ? sanitizer_open_bytes(start, looked_bytes) : 0, !is_open};
}

static void add_count(struct text *text, size_t bytes, const char *where)
{
    text_print(text, "%zu byte%s %s", bytes, bytes == 1 ? "" : "s", where);
}

/* Adds "12 bytes behind a block of 100 bytes at 0x..., which is in use". */
static void add_relation(struct text *text, const char *address, const struct blamed *block)
{
    if (address < block->start) {
        add_count(text, (size_t)(block->start - address), "before");
    } else if (!block->is_freed && address >= block->start + block->size_bytes) {
        add_count(text, (size_t)(address - block->start) - block->size_bytes, "behind");
    } else {
        add_count(text, (size_t)(address - block->start), "into");
    }
    text_add(text, " a block ");
    if (block->size_bytes != 0) {
        text_add(text, "of ");
        add_count(text, block->size_bytes, "");
    }
    text_print(text, "at %p, which is %s", (const void *)block->start, block->is_freed ? "free" : "in use");
}

/* Finds the next block, if the address is more likely an access before that one than one in this block. */
static bool next_is_near(const struct describe_place *place, const char *address, const struct blamed *block,
                         struct blamed *next)
{
    char *start = (char *)(uintptr_t)(place->block_start + place->block_bytes);
    if (place->kind != RECORD_KIND_slab || start - address > GRANULE_BYTES || sanitizer_is_open(address)) return false;
    if (!block->is_freed && address < block->start + block->size_bytes) return false;
    struct describe_place after;
    if (!describe_heap_address((uintptr_t)start, &after) || after.kind != RECORD_KIND_slab) return false;
    *next = (struct blamed){start, sanitizer_open_bytes(start, after.block_bytes), !sanitizer_is_open(start)};
    return !next->is_freed;
}

static void add_block(struct text *text, const struct describe_place *place, const char *address)
{
    struct blamed next,
        block = blame((char *)(uintptr_t)place->block_start, place->block_bytes, place->kind == RECORD_KIND_huge);
    text_add(text, " is ");
    add_relation(text, address, &block);
    if (block.start == (const char *)(uintptr_t)place->block_start && next_is_near(place, address, &block, &next)) {
        text_add(text, ",\nhakmem:   and ");
        add_relation(text, address, &next);
    }
    text_print(text, "\nhakmem:   in %s of the heap's, ", lookup_kind_names[place->kind]);
    add_count(text, place->block_bytes, "at ");
    text_print(text, "%p\n", (const void *)(uintptr_t)place->block_start);
    if (!VALIDATE) return;
    trace_describe(text, block.start);
    if (!trace_is_on()) text_add(text, "hakmem:   HAKMEM_FAILFAST_LEVEL=2 tells where and by which threads, too\n");
}

void sanitizer_report(const void *address)
{
    if (!ASAN) return; /* so that other builds drop the rest */
    static char buffer[REPORT_BYTES];
    struct text text = {buffer, sizeof buffer, 0};
    struct describe_place place;
    if (!describe_heap_address((uintptr_t)address, &place)) return;
    text_print(&text, "hakmem: %p", address);
    if (place.block_start != 0) {
        add_block(&text, &place, address);
    } else {
        text_print(&text, " is in the heap, in %s\n",
                   place.kind == RECORD_KIND_free ? lookup_kind_names[RECORD_KIND_free] : "no block");
    }
    os_write_error(text.bytes, text.length);
}
