/* describe.c: see describe.h. */
#include "debug/describe.h"

#include "cache/tcache.h"
#include "debug/frame_layout.h"
#include "guard/guard.h"
#include "heap/huge.h"
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

/* Copies the descriptor of the slab or run that a page belongs to, which is its first page's. False if the members make
 * no sense, as they may while the page changes hands. */
static bool slab_copy(const struct superslab *superslab, uint32_t page, struct slab *copy, uint32_t *first)
{
    if (!os_peek(&superslab->slabs[page], copy, sizeof *copy)) return false;
    uint32_t back = copy->page_offset;
    if (back > page || !os_peek(&superslab->slabs[page - back], copy, sizeof *copy)) return false;
    *first = page - back;
    return copy->page_count > back && copy->page_count <= SUPERSLAB_PAGES - *first;
}

/* The address of the first block of the slab that begins at a page. Reads nothing of the slab, since its owner may be
 * making it now. */
static uint64_t first_block(const struct superslab *superslab, uint32_t page, uint32_t class_index)
{
    return number_of(superslab_base(superslab)) + (uint64_t)page * PAGE_BYTES + slab_colour_at(page, class_index);
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

/* Walks the slab's free list, to see whether the block is on it and whether a link leads out of the slab. */
static void walk_free_list(struct describe_place *place, uint64_t slab_end)
{
    uint64_t block = place->list_head, from = 0;
    for (uint64_t count = 0; block != 0 && count <= place->slab_capacity; count++) {
        bool is_block =
            block >= place->slab_start && block < slab_end && (block - place->slab_start) % place->block_bytes == 0;
        if (!is_block) {
            place->list_word = from;
            place->list_value = block;
            return;
        }
        if (block == place->block_start) place->state = RECORD_STATE_free;
        bool readable;
        from = block;
        block = os_peek_word(pointer_of(block), &readable);
        if (!readable) return;
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

static bool is_in_own_bin(uint64_t block_start, uint32_t class_index)
{
    const struct block *block = tcache_self()->heads[class_index];
    struct cycle cycle = {.mark = 0};
    bool readable = true;
    for (uint32_t count = 0; block != NULL && readable && count < LIST_BLOCKS_MAX; count++) {
        if (number_of(block) == block_start) return true;
        if (cycle_closes(&cycle, number_of(block))) return false;
        block = pointer_of(os_peek_word(block, &readable));
    }
    return false;
}

static void find_state(const struct superslab *superslab, const struct slab *slab, struct describe_place *place)
{
    uint64_t index = (place->block_start - place->slab_start) / place->block_bytes;
    uint64_t rank = (index + slab->capacity - slab->carve_start) % slab->capacity;
    walk_free_list(place, place->slab_start + place->slab_capacity * place->block_bytes);
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

static void describe_slab(const struct superslab *superslab, uint32_t tag, struct describe_place *place)
{
    struct slab slab;
    uint32_t first;
    uint32_t class_index = tag & TAG_CLASS_MASK;
    if (class_index == CLASS_EMPTY || class_index >= CLASS_COUNT ||
        !slab_copy(superslab, (uint32_t)place->page, &slab, &first) || slab.class_index != class_index ||
        slab.capacity == 0)
        return;
    place->kind = RECORD_KIND_slab;
    place->class_index = class_index;
    place->owner = tag >> TAG_OWNER_SHIFT;
    const struct owner *owner = owner_with_id(tag >> TAG_OWNER_SHIFT);
    place->owner_is_orphan = owner != NULL && owner_is_orphan(owner);
    place->slab_start = first_block(superslab, first, class_index);
    place->slab_capacity = slab.capacity;
    place->slab_carved = slab.carved_count;
    place->slab_used = atomic_load_explicit(&slab.used_count, memory_order_relaxed);
    place->list_head = number_of(slab.free);
    uint64_t block_bytes = sizeclass_bytes(class_index);
    uint64_t inside = place->address - place->slab_start; /* wraps to a large number before the first block */
    place->state = RECORD_STATE_outside;
    if (place->address < place->slab_start || inside / block_bytes >= slab.capacity) return;
    place->state = RECORD_STATE_unknown;
    place->block_bytes = block_bytes;
    place->block_start = place->slab_start + inside / block_bytes * block_bytes;
    find_state(superslab, &slab, place);
}

/* Only the first page of a run has a tag, so this searches backwards for it. */
static void describe_run(const struct superslab *superslab, struct describe_place *place)
{
    struct slab run;
    uint32_t first;
    for (uint32_t back = 0; back <= place->page && back < RUN_PAGES_MAX; back++) {
        first = (uint32_t)place->page - back;
        uint64_t start = place->superslab + (uint64_t)first * PAGE_BYTES;
        uint32_t tag = pagemap_tag_checked(pointer_of(start));
        if (tag == 0) continue;
        if (tag != CLASS_RUN || !os_peek(&superslab->slabs[first], &run, sizeof run)) return;
        if (run.page_count <= back || run.page_count > RUN_PAGES_MAX) return;
        place->kind = RECORD_KIND_run;
        place->class_index = CLASS_RUN;
        place->block_start = start;
        place->block_bytes = (uint64_t)run.page_count * PAGE_BYTES;
        place->state = RECORD_STATE_live; /* a freed run loses its tag at once */
        return;
    }
}

static void describe_in_superslab(const struct superslab *superslab, struct describe_place *place)
{
    place->superslab = place->address & ~((uint64_t)SUPERSLAB_BYTES - 1);
    if (number_of(superslab_base(superslab)) != place->superslab) return;
    place->page = place->address % SUPERSLAB_BYTES / PAGE_BYTES;
    place->kind = RECORD_KIND_free;
    uint64_t free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed);
    if (free_pages >> place->page & 1) return;
    uint32_t tag = pagemap_tag_checked(pointer_of(place->address));
    if (tag == 0 || tag == CLASS_RUN) {
        describe_run(superslab, place);
    } else {
        describe_slab(superslab, tag, place);
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
    uint64_t base = address & ~((uint64_t)SUPERSLAB_BYTES - 1);
    char *start;
    size_t mapped_bytes;
    if (describe_guard(place)) {
        /* describe_guard has filled in the place */
    } else if (huge_find(pointer_of(address), &start, &mapped_bytes)) {
        place->kind = RECORD_KIND_huge;
        place->class_index = CLASS_HUGE;
        place->block_start = number_of(start);
        place->block_bytes = mapped_bytes;
        place->state = RECORD_STATE_live;
    } else if (pagemap_tag_checked(pointer_of(base)) != CLASS_HUGE) {
        const struct superslab *superslab = pagemap_descriptor(pointer_of(address));
        if (superslab != NULL) describe_in_superslab(superslab, place);
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
        struct slab slab;
        uint32_t first;
        if (pagemap_tag_checked(base + (size_t)page * PAGE_BYTES) != scan->tag) continue;
        if (!slab_copy(superslab, page, &slab, &first) || first != page) continue;
        if (slab.class_index != scan->suspect->class_index) continue;
        uint64_t start = first_block(superslab, page, slab.class_index);
        scan_slab(scan, start, start + (uint64_t)slab.capacity * sizeclass_bytes(slab.class_index));
        scan->pages_left -= slab.page_count < scan->pages_left ? slab.page_count : scan->pages_left;
    }
}

/* Says what is wrong with a link of a bin; NULL: nothing. */
static const char *link_fault(uint64_t block, uint32_t tag)
{
    if (block % GRANULE_BYTES != 0) return "it is no multiple of 16";
    if (pagemap_tag_checked(pointer_of(block)) != tag) return "it leads out of its class, or of its heap";
    struct slab slab;
    uint32_t first;
    const struct superslab *superslab = pagemap_descriptor(pointer_of(block));
    uint32_t page = (uint32_t)(block % SUPERSLAB_BYTES / PAGE_BYTES);
    if (superslab == NULL || !slab_copy(superslab, page, &slab, &first)) return "it leads to no slab";
    uint64_t start = first_block(superslab, first, tag & TAG_CLASS_MASK);
    if (block < start || (block - start) % sizeclass_bytes(tag & TAG_CLASS_MASK) != 0)
        return "it leads between two blocks";
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
        suspect->value = os_peek_word(suspect->word, &readable);
        if (!readable || suspect->value == 0) return false;
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
