/* describe.c: see describe.h. */
#include "debug/describe.h"

#include "cache/tcache.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "guard/guard.h"
#include "os/peek.h"
#include "report/broken.h"
#include "report/settings.h"
#include "slab/slab.h"
#include "superslab/pool.h"

enum {
    LIST_BLOCKS_MAX = 1 << 16,  /* blocks walked of a bin's list: more than any slab has */
    SCAN_PART_BYTES = 1024,     /* the search for copies reads this much at once; a signal stack may be small */
    SCAN_PAGES_MAX = 1024,      /* the search for copies reads at most 64 MiB of slabs */
};

static uint64_t number_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static const void *pointer_of(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

static void read_words(struct describe_place *place)
{
    uint64_t count = place->block_bytes / sizeof place->words[0];
    if (count > RECORD_WORDS) count = RECORD_WORDS;
    for (place->word_count = 0; place->word_count < count; place->word_count++) {
        bool readable;
        const uint64_t *words = pointer_of(place->block_start);
        place->words[place->word_count] = os_peek_word(words + place->word_count, &readable);
        if (!readable) break;
    }
}

/* Walks the list of blocks that other threads freed, to see whether the block is on it and whether a link leads out of the slab. */
static void walk_free_list(struct describe_place *place, uint64_t slab_end)
{
    uint64_t block = place->list_head, from = 0;
    for (uint64_t count = 0; block != 0 && count <= place->slab_capacity; count++) {
        bool is_block =
            block >= place->slab_start && block < slab_end && (block - place->slab_start) % place->block_bytes == 0;
        if (!is_block) {
            /* unreached: by chance: the slab changes while it is read */
            place->list_word = from;
            place->list_value = block;
            return;
        }
        if (block == place->block_start) place->state = RECORD_STATE_free;
        bool readable;
        from = block;
        block = os_peek_word(pointer_of(block), &readable); /* 0 if it cannot be read */
    }
}

/* Detects that a walk runs in a cycle (Brent 1980), after at most three times the steps of its first round. */
struct cycle {
    uint64_t mark; /* a block that the walk has passed */
    uint32_t count, next_mark;
};

static bool cycle_closes(struct cycle *cycle, uint64_t block)
{
    if (block == cycle->mark) return true;
    if (cycle->count++ == cycle->next_mark) {
        cycle->mark = block;
        cycle->next_mark = 2 * cycle->next_mark + 1;
    }
    return false;
}

/* unreached: by chance: the slab changes while it is read */
static bool is_in_own_bin(uint64_t block_start, uint32_t class_index)
{
    const struct block *block = tcache_self()->heads[class_index];
    struct cycle cycle = {.mark = 0};
    bool readable;
    for (uint32_t count = 0; block != NULL && count < LIST_BLOCKS_MAX; count++) {
        if (number_of(block) == block_start) return true;
        if (cycle_closes(&cycle, number_of(block))) return false;
        block = pointer_of(os_peek_word(block, &readable)); /* NULL if it cannot be read */
    }
    return false;
}

static void find_state(const struct superslab *superslab, const struct slab *slab, uint32_t first_page,
                       struct describe_place *place)
{
    uint64_t index = (place->block_start - place->slab_start) / place->block_bytes;
    uint64_t rank = (index + slab->capacity - slab->carve_start) % slab->capacity;
    walk_free_list(place, place->slab_start + place->slab_capacity * place->block_bytes);
    bool readable = index / 64 < sizeof(mark_words) / sizeof(uint64_t); /* a damaged descriptor may say anything */
    const uint64_t *marks = superslab->marks[first_page];
    if (readable && (os_peek_word(marks + index / 64, &readable) >> index % 64 & 1) != 0)
        place->state = RECORD_STATE_free;
    if (place->state == RECORD_STATE_free) return;
    if (superslab->live_bits != NULL) {
        uint32_t granule = (uint32_t)(place->block_start % SUPERSLAB_BYTES / GRANULE_BYTES);
        uint64_t bits = atomic_load_explicit(&superslab->live_bits[granule / 64], memory_order_relaxed);
        if (bits >> granule % 64 & 1) {
            place->state = RECORD_STATE_live;
            return;
        }
        place->state = RECORD_STATE_not_live;
    }
    if (!slab->hollow && rank >= slab->carved_count) {
        place->state = RECORD_STATE_not_carved;
    } else if (is_in_own_bin(place->block_start, (uint32_t)place->class_index)) {
        place->state = RECORD_STATE_free;
    }
}

/* What the slab's descriptor says beyond the lookup. False if the slab has changed since. */
static bool describe_slab(const struct lookup *at, struct describe_place *place)
{
    struct slab slab;
    if (!os_peek(&at->superslab->slabs[at->first_page], &slab, sizeof slab) || slab.class_index != at->class_index ||
        slab.capacity != at->slab_capacity)
        /* unreached: by chance: the slab changes while it is read */
        return false;
    place->class_index = at->class_index;
    place->owner = at->owner_id;
    const struct owner *owner = owner_with_id(at->owner_id);
    place->owner_is_orphan = owner != NULL && owner_is_orphan(owner);
    place->slab_start = number_of(at->slab_start);
    place->slab_capacity = slab.capacity;
    place->slab_carved = slab.carved_count;
    place->slab_used = atomic_load_explicit(&slab.used_count, memory_order_relaxed);
    place->list_head = number_of(slab.free);
    place->state = RECORD_STATE_outside;
    if (at->start == NULL) return true;
    place->state = RECORD_STATE_unknown;
    place->block_bytes = at->bytes;
    place->block_start = number_of(at->start);
    find_state(at->superslab, &slab, at->first_page, place);
    return true;
}

static void describe_block(const struct lookup *at, struct describe_place *place)
{
    place->kind = at->kind;
    if (at->superslab != NULL) {
        place->superslab = number_of(superslab_base(at->superslab));
        place->page = place->address % SUPERSLAB_BYTES / PAGE_BYTES;
    }
    if (at->kind == RECORD_KIND_slab) {
        if (!describe_slab(at, place)) place->kind = RECORD_KIND_free;
    } else if (at->start != NULL) {
        place->class_index = at->class_index;
        place->block_start = number_of(at->start);
        place->block_bytes = at->bytes;
        place->state = RECORD_STATE_live;
    }
}

/* Narrows a framed block to the program's part. */
static void describe_frame(struct describe_place *place)
{
    if (!VALIDATE) return;
    struct framed framed;
    bool may_be = place->state == RECORD_STATE_live && failfast_level() >= LEVEL_FRAMES;
    if (!may_be || !frame_peek((char *)(uintptr_t)place->block_start, place->block_bytes, &framed)) return;
    place->block_start = number_of(framed.user);
    place->block_bytes = framed.word.size_bytes;
    if (framed.word.state == FRAME_FREED) place->state = RECORD_STATE_free;
}

static bool describe_guard(struct describe_place *place)
{
    struct guard_history history;
    if (!guard_find(place->address, &history)) return false;
    place->kind = RECORD_KIND_guard;
    place->class_index = CLASS_GUARD;
    place->block_start = history.start;
    place->block_bytes = history.size_bytes;
    place->state = history.state;
    return true;
}

bool describe_heap_address(uint64_t address, struct describe_place *place)
{
    *place = (struct describe_place){.address = address};
    if (!describe_guard(place)) {
        struct lookup at = heap_lookup_any(pointer_of(address));
        describe_block(&at, place);
    }
    return place->kind != RECORD_KIND_none;
}

bool describe_address(uint64_t address, struct describe_place *place)
{
    describe_heap_address(address, place);
    if (place->block_start != 0) {
        describe_frame(place);
        place->offset = address - place->block_start;
        read_words(place);
    }
    return place->kind != RECORD_KIND_none;
}

/* --- bad links ------------------------------------------------------------------------------------------ */

struct scan {
    struct describe_suspect *suspect;
    uint32_t tag;
    uint32_t pages_left;
};

/* Searches the blocks of one slab for copies. Reads a part at a time, since a system call for each block would be
 * slow. */
static void scan_slab(struct scan *scan, uint64_t slab_start, uint64_t slab_end)
{
    uint64_t words[SCAN_PART_BYTES / sizeof(uint64_t)];
    uint64_t block_bytes = sizeclass_bytes(scan->suspect->class_index);
    for (uint64_t part = slab_start & ~(uint64_t)(SCAN_PART_BYTES - 1); part < slab_end; part += SCAN_PART_BYTES) {
        if (!os_peek(pointer_of(part), words, sizeof words)) continue;
        for (uint32_t i = 0; i < SCAN_PART_BYTES / sizeof(uint64_t); i++) {
            uint64_t at = part + i * sizeof(uint64_t);
            if (words[i] != scan->suspect->value || at < slab_start || (at - slab_start) % block_bytes != 0) continue;
            if (scan->suspect->copy_count == DESCRIBE_COPIES_MAX) return;
            scan->suspect->copies[scan->suspect->copy_count++] = pointer_of(at);
        }
    }
}

static void scan_superslab(struct superslab *superslab, void *context)
{
    struct scan *scan = context;
    const char *base = superslab_base(superslab);
    if (base == NULL) return;
    for (uint32_t page = 0; page < SUPERSLAB_PAGES && scan->pages_left > 0; page++) {
        const char *start = base + (size_t)page * PAGE_BYTES;
        if (pagemap_tag_checked(start) != scan->tag) continue;
        struct lookup at = heap_lookup_any(start);
        if (at.kind != RECORD_KIND_slab || at.first_page != page || at.class_index != scan->suspect->class_index)
            continue;
        uint64_t first = number_of(at.slab_start);
        scan_slab(scan, first, first + (uint64_t)at.slab_capacity * at.bytes);
        scan->pages_left -= at.page_count < scan->pages_left ? at.page_count : scan->pages_left;
    }
}

/* Says what is wrong with a link of a bin; NULL: nothing. */
static const char *link_fault(uint64_t block, uint32_t tag)
{
    if (block % GRANULE_BYTES != 0) return "it is no multiple of 16";
    if (pagemap_tag_checked(pointer_of(block)) != tag) return "it leads out of its class, or of its heap";
    struct lookup at = heap_lookup_any(pointer_of(block));
    if (at.kind != RECORD_KIND_slab) return "it leads to no slab";
    uint64_t start = number_of(at.slab_start);
    if (block < start || (block - start) % at.bytes != 0) return "it leads between two blocks";
    return NULL;
}

static bool bin_suspect(const struct tcache *tcache, uint32_t class_index, struct describe_suspect *suspect)
{
    uint32_t tag = tcache->tag | class_index;
    suspect->class_index = class_index;
    suspect->word = &tcache->heads[class_index];
    suspect->value = number_of(tcache->heads[class_index]);
    if (suspect->value == 0) return false;
    suspect->text = link_fault(suspect->value, tag);
    struct cycle cycle = {.mark = suspect->value};
    for (uint32_t count = 0; suspect->text == NULL && count < LIST_BLOCKS_MAX; count++) {
        bool readable;
        suspect->word = pointer_of(suspect->value);
        suspect->value = os_peek_word(suspect->word, &readable); /* 0 if it cannot be read */
        if (suspect->value == 0) return false;
        suspect->text = cycle_closes(&cycle, suspect->value) ? "the list does not end: a block was freed twice"
                                                             : link_fault(suspect->value, tag);
    }
    return suspect->text != NULL;
}

static bool broken_suspect(struct describe_suspect *suspect)
{
    struct broken_facts facts = broken_take();
    bool readable;
    *suspect = (struct describe_suspect){.word = facts.address, .class_index = facts.class_index, .text = facts.text};
    if (facts.address != NULL) suspect->value = os_peek_word(facts.address, &readable);
    return facts.text != NULL;
}

bool describe_bad_link(struct describe_suspect *suspect)
{
    if (broken_suspect(suspect)) return true;
    const struct tcache *tcache = tcache_self();
    *suspect = (struct describe_suspect){.word = NULL};
    if (tcache->tag == 0) return false;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) {
        if (!bin_suspect(tcache, class_index, suspect)) continue;
        struct scan scan = {suspect, tcache->tag | class_index, SCAN_PAGES_MAX};
        if (suspect->word == &tcache->heads[class_index]) pool_for_each(scan_superslab, &scan);
        return true;
    }
    *suspect = (struct describe_suspect){.word = NULL};
    return false;
}
