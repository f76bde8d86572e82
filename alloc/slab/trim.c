/* trim.c: see trim.h. More than 400 lines: what finds, purges and carves hollow memory shares one view of a slab. */
#include "slab/trim.h"

#include <string.h>

#include "os/os.h"
#include "report/broken.h"
#include "superslab/purge.h"
#include "superslab/round.h"

enum {
    WORD_BITS = 64,
    BLOCKS_MAX = PAGE_BYTES / GRANULE_BYTES, /* slabs of more pages have larger and fewer blocks */
    OS_PAGES_MAX = 16, /* system pages in one of our pages: bits of hollow_pages */
    SLAB_PAGES_MAX = 8,
    TRIM_GLANCE_BLOCKS = 8, /* what may_go, and what the rest of a trim of one slab, counts in a step's blocks */
    TRIM_LOOK_BLOCKS = 32,
};

static_assert(SLAB_PAGES_MAX * PAGE_BYTES / (PAGE_BYTES / SLAB_BLOCKS_MIN) <= BLOCKS_MAX, "no slab has more blocks");

/* The layout of a slab: its blocks, and the system's pages that they lie on. */
struct layout {
    struct slab *slab;
    char *start; /* where the slab's pages begin */
    uint32_t colour; /* bytes from start to the first block: less than a page of the system */
    uint32_t block_bytes;
    uint32_t os_bytes;
    uint32_t os_pages; /* in one of our pages */
};

static struct layout layout_of(struct slab *slab)
{
    uint32_t os_bytes = (uint32_t)os_page_bytes();
    return (struct layout){.slab = slab,
                           .start = superslab_page_start(superslab_of(slab), slab),
                           .colour = slab_colour(slab),
                           .block_bytes = sizeclass_bytes(slab->class_index),
                           .os_bytes = os_bytes,
                           .os_pages = PAGE_BYTES / os_bytes};
}

static uint32_t os_page_count(const struct layout *at)
{
    return at->slab->page_count * at->os_pages;
}

static bool is_hollow(const struct layout *at, uint32_t os_page)
{
    return (at->slab[os_page / at->os_pages].hollow_pages >> os_page % at->os_pages & 1) != 0;
}

static void hollow_set(const struct layout *at, uint32_t os_page, bool hollow)
{
    uint16_t *bits = &at->slab[os_page / at->os_pages].hollow_pages;
    uint32_t bit = 1u << os_page % at->os_pages;
    *bits = (uint16_t)(hollow ? *bits | bit : *bits & ~bit);
}

/* The first and last system page that a block touches. The first block that touches a system page, and the block after
 * the last one; both are the capacity if the page lies behind the last block. */
static uint32_t first_os_page(const struct layout *at, uint32_t block)
{
    return (at->colour + block * at->block_bytes) / at->os_bytes;
}

static uint32_t last_os_page(const struct layout *at, uint32_t block)
{
    return (at->colour + (block + 1) * at->block_bytes - 1) / at->os_bytes;
}

static uint32_t first_block(const struct layout *at, uint32_t os_page)
{
    uint32_t offset = os_page * at->os_bytes;
    uint32_t block = offset < at->colour ? 0 : (offset - at->colour) / at->block_bytes;
    return block < at->slab->capacity ? block : at->slab->capacity;
}

static uint32_t end_block(const struct layout *at, uint32_t os_page)
{
    uint32_t block = ((os_page + 1) * at->os_bytes - 1 - at->colour) / at->block_bytes + 1;
    return block < at->slab->capacity ? block : at->slab->capacity;
}

static bool touches_hollow(const struct layout *at, uint32_t block)
{
    uint32_t last = last_os_page(at, block);
    for (uint32_t os_page = first_os_page(at, block); os_page <= last; os_page++)
        if (is_hollow(at, os_page)) return true;
    return false;
}

static struct block *block_at(const struct layout *at, uint32_t block)
{
    return (struct block *)(void *)(at->start + at->colour + (size_t)block * at->block_bytes);
}

/* --- trim ------------------------------------------------------------------------------------------- */

/* A bit for each block, set if the block is free, touches a hollow page, or has not been carved. */
struct idle {
    mark_words words;
};

/* The bits of one word that stand for blocks in [first, end). */
static uint64_t word_part(uint32_t word, uint32_t first, uint32_t end)
{
    uint32_t start = word * WORD_BITS;
    uint64_t from = first <= start ? ~0ull : ~0ull << (first - start);
    uint64_t to = end >= start + WORD_BITS ? ~0ull : ~(~0ull << (end - start));
    return from & to;
}

static void idle_set(struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        idle->words[word] |= word_part(word, first, end);
}

static void idle_clear(struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        idle->words[word] &= ~word_part(word, first, end);
}

static bool idle_has(const struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        if ((~idle->words[word] & word_part(word, first, end)) != 0) return false;
    return true;
}

/* Turns the list of blocks that other threads freed into bits. Returns how many they were. */
static uint32_t unlink_all(const struct layout *at)
{
    struct slab *slab = at->slab;
    const uint64_t inverse = sizeclass_inverse(slab->class_index);
    const size_t bytes = (size_t)slab->capacity * at->block_bytes;
    uint64_t *marks = slab_marks(slab);
    uint32_t count = 0;
    for (const struct block *block = slab->free; block != NULL; block = link_get(&block->next)) {
        size_t offset = (size_t)((const char *)block - at->start);
        if (offset - at->colour >= bytes || count++ == slab->capacity) broken(BROKEN_free, slab->class_index, block);
        uint64_t bit = offset * inverse >> INVERSE_SHIFT;
        marks[bit / WORD_BITS] |= 1ull << bit % WORD_BITS;
    }
    slab->free = NULL;
    slab->linked_count = 0;
    return count;
}

/* How many words hold the slab's bits; the others are not used. */
static uint32_t word_count(const struct layout *at)
{
    return (at->slab->capacity + WORD_BITS - 1u) / WORD_BITS;
}

/* False: no page can go. Of small blocks, all of a page are at least 16 in a row, so a byte of the slab's bits is full. Most trims
 * of scattered blocks end here. */
static bool may_go(const struct layout *at)
{
    const uint64_t low = ~0ull / UINT8_MAX, *marks = slab_marks(at->slab);
    if (at->block_bytes > at->os_bytes / 16) return true;
    for (uint32_t word = 0; word < word_count(at); word++)
        if (((~marks[word] - low) & marks[word] & low << 7) != 0) return true;
    return false;
}

/* Not by memcpy: malloc gets here by its clock, and a program's own memcpy may call malloc. */
static void copy_words(uint64_t *to, const uint64_t *from, uint32_t count)
{
    for (uint32_t word = 0; word < count; word++) {
        to[word] = from[word];
        __asm__ volatile("" : : : "memory"); /* else the compiler makes a call of the loop */
    }
}

static void idle_find(const struct layout *at, struct idle *idle)
{
    const uint32_t capacity = at->slab->capacity;
    copy_words(idle->words, slab_marks(at->slab), word_count(at));
    if (!at->slab->hollow) { /* what is not carved yet */
        uint32_t first = (uint32_t)at->slab->carve_start + at->slab->carved_count,
                 left = capacity - at->slab->carved_count;
        if (first >= capacity) first -= capacity;
        uint32_t end = first + left < capacity ? first + left : capacity;
        if (left > 0) idle_set(idle, first, end);
        if (left > end - first) idle_set(idle, 0, left - (end - first));
        return;
    }
    for (uint32_t os_page = 0; os_page < os_page_count(at); os_page++)
        if (is_hollow(at, os_page)) idle_set(idle, first_block(at, os_page), end_block(at, os_page));
}

static bool can_go(const struct layout *at, const struct idle *idle, uint32_t os_page)
{
    if (is_hollow(at, os_page)) return false;
    uint32_t block = first_block(at, os_page), end = end_block(at, os_page);
    return block != end && idle_has(idle, block, end); /* behind the last block no page was ever used */
}

static uint32_t idle_count(const struct layout *at, const struct idle *idle)
{
    uint32_t count = 0;
    for (uint32_t word = 0; word * WORD_BITS < at->slab->capacity; word++)
        count += (uint32_t)__builtin_popcountll(idle->words[word]);
    return count;
}

/* Purges the pages that can go, with one call for each row of them, calls_max at most. Adds the pages that were purged to
 * *gone. Returns how many calls were made, failed ones included: a call that failed may still have purged a
 * part. */
static uint32_t purge_rows(const struct layout *at, const struct idle *idle, uint32_t calls_max, uint32_t *gone)
{
    uint32_t calls = 0;
    for (uint32_t first = 0; first < os_page_count(at) && calls < calls_max; first++) {
        uint32_t end = first;
        while (end < os_page_count(at) && can_go(at, idle, end)) end++;
        if (end == first) continue;
        char *start = at->start + (size_t)first * at->os_bytes;
        calls++;
        if (os->purge(start, (size_t)(end - first) * at->os_bytes) == 0) {
            *gone += end - first;
            for (uint32_t os_page = first; os_page < end; os_page++) hollow_set(at, os_page, true);
        }
        first = end; /* page `end` cannot go */
    }
    return calls;
}

/* The idle blocks that touch no hollow page are free. Returns how many they are. */
static uint32_t remark(const struct layout *at, struct idle *idle)
{
    for (uint32_t os_page = 0; os_page < os_page_count(at); os_page++)
        if (is_hollow(at, os_page)) idle_clear(idle, first_block(at, os_page), end_block(at, os_page));
    copy_words(slab_marks(at->slab), idle->words, word_count(at));
    return idle_count(at, idle);
}

static bool any_hollow(const struct slab *slab)
{
    for (uint32_t page = 0; page < slab->page_count; page++)
        if (slab[page].hollow_pages != 0) return true;
    return false;
}

/* What a step of a trim may still do. */
struct budget {
    uint32_t slabs, calls;
    int64_t blocks; /* below 0: more than the step had, since it finishes the slab that it looks at */
    bool has_more; /* the calls did not suffice for all rows of the last slab */
};

static const struct budget NO_BOUND = {UINT32_MAX, UINT32_MAX, INT64_MAX, false};

static size_t trim(struct slab *slab, struct budget *left)
{
    left->has_more = false;
    if (!slab_has_free(slab)) return 0;
    struct layout at = layout_of(slab);
    if (at.os_pages == 0 || at.os_pages > OS_PAGES_MAX) return 0;
    uint32_t used = atomic_load_explicit(&slab->used_count, memory_order_relaxed); /* relaxed: we hold the owner */
    if ((size_t)(slab->carved_count - used) * at.block_bytes < at.os_bytes) return 0;
    left->blocks -= unlink_all(&at) + TRIM_GLANCE_BLOCKS;
    /* Fewer blocks in use than pages: some page has none, or shares one. */
    if (used >= os_page_count(&at) && !slab->hollow && slab->carved_count == slab->capacity && !may_go(&at)) {
        slab->trimmed = true;
        return 0;
    }
    left->blocks -= TRIM_LOOK_BLOCKS;
    struct idle idle;
    idle_find(&at, &idle);
    if (idle_count(&at, &idle) != slab->capacity - used)
        return 0; /* a child that was forked during a free may not know */
    uint32_t gone = 0, calls = purge_rows(&at, &idle, left->calls, &gone);
    left->has_more = calls == left->calls && gone > 0;
    slab->trimmed =
        calls == 0 || (gone > 0 && !left->has_more); /* if the system refused all, the next trim asks again */
    left->calls -= calls;
    if (calls == 0) return 0;
    owner_count_event(slab->owner, OWNER_EVENT_trims);
    slab->hollow = any_hollow(slab);
    if (gone > 0) slab->was_trimmed = true;
    uint32_t carved = used + remark(&at, &idle);
    owner_carved_bytes_add(slab->owner, ((size_t)carved - slab->carved_count) * at.block_bytes);
    slab->carved_count = (uint16_t)carved;
    return (size_t)gone * at.os_bytes;
}

size_t slab_trim(struct slab *slab)
{
    struct budget left = NO_BOUND;
    return trim(slab, &left);
}

void slab_trim_begin(struct owner *owner)
{
    owner->trim_class = 1;
    owner->trim_ahead = 0;
    owner->trim_at = owner->slabs[1];
}

/* The trim has looked at the slab: the next one is behind it in the list, unless that is the first. */
static void trim_advance(struct owner *owner, struct slab *slab)
{
    /* If every slab is its successor's predecessor, the walk comes to the first slab again. */
    if (slab->next->prev != slab) broken(BROKEN_slabs, owner->trim_class, slab);
    owner->trim_at = slab->next != owner->slabs[owner->trim_class] ? slab->next : NULL;
}

static void trim_next_class(struct owner *owner)
{
    if (++owner->trim_class < CLASS_COUNT) {
        owner->trim_at = owner->slabs[owner->trim_class];
        return;
    }
    owner->trim_class = 0;
    owner->idle_bytes_kept = owner_idle_bytes(owner);
}

static size_t trim_until(struct owner *owner, struct budget *left)
{
    size_t bytes = 0;
    for (; slab_trim_is_due(owner) && left->slabs > 0; left->slabs--) {
        struct slab *slab = owner->trim_at;
        if (slab == NULL) {
            trim_next_class(owner);
            continue;
        }
        if (!slab->trimmed) {
            bytes += trim(slab, left);
            if (left->has_more) return bytes; /* the next step begins with the rest of this slab */
        }
        trim_advance(owner, slab);
        if (left->blocks <= 0 || left->calls == 0) return bytes;
    }
    return bytes;
}

size_t slab_trim_step(struct owner *owner)
{
    if (owner->trim_ahead >= TRIM_STEP_BLOCKS) {
        owner->trim_ahead -= TRIM_STEP_BLOCKS;
        return 0;
    }
    const uint32_t may = round_calls_left(), calls = may < TRIM_STEP_CALLS ? may : TRIM_STEP_CALLS;
    if (calls == 0) return 0;
    struct budget left = {TRIM_STEP_SLABS, calls, TRIM_STEP_BLOCKS - owner->trim_ahead, false};
    size_t bytes = trim_until(owner, &left);
    round_calls_made(calls - left.calls);
    owner->trim_ahead = left.blocks < 0 ? (uint32_t)-left.blocks : 0;
    return bytes;
}

size_t slab_trim_all(struct owner *owner)
{
    slab_trim_begin(owner);
    struct budget left = NO_BOUND;
    return trim_until(owner, &left);
}

void slab_trim_shrunk(struct owner *owner)
{
    owner->used_bytes_peak = owner_used_bytes(owner);
    uint64_t now_ms = os_now_ms();
    const uint64_t since_ms = now_ms - owner->trimmed_ms, delay_ms = purge_delay_ms();
    if (!owner->trimmed_is_wanted && since_ms >= WINDOW_DELAYS * delay_ms) /* sooner, there was no time to want it */
        owner->trims_wanted = 0;
    const bool is_learned = owner->trimmed_is_wanted || owner->trims_wanted != 0;
    owner->put_off_ms = 0;
    if (is_learned && since_ms < delay_ms << owner->trims_wanted) {
        owner->put_off_ms = owner->trimmed_ms + (delay_ms << owner->trims_wanted);
        owner->put_off_bytes = owner_used_bytes(owner);
        return;
    }
    if (owner->trimmed_is_wanted && owner->trims_wanted < TRIM_WAIT_LOG2_MAX) owner->trims_wanted++;
    owner->trimmed_is_wanted = false;
    owner->trimmed_pages_released = 0;
    owner->trimmed_ms = now_ms;
    slab_trim_begin(owner);
}

bool slab_trim_put_off(struct owner *owner, uint64_t now_ms)
{
    if (owner->put_off_ms == 0 || now_ms < owner->put_off_ms) return false;
    owner->put_off_ms = now_ms + purge_delay_ms();
    const size_t used_bytes = owner_used_bytes(owner), seen_bytes = owner->put_off_bytes;
    owner->put_off_bytes = used_bytes;
    return owner_idle_bytes(owner) > used_bytes && used_bytes <= seen_bytes;
}

void slab_trim_left(struct owner *owner)
{
    if (owner_has_shrunk(owner) || owner->put_off_ms != 0) {
        owner->put_off_ms = 0;
        owner->used_bytes_peak = owner_used_bytes(owner);
        slab_trim_begin(owner);
    }
    if (slab_trim_is_due(owner)) slab_trim_all(owner);
}

/* Memory that a trim took is wanted again too where its slab has ended meanwhile, and another one is made. */
void slab_trim_may_be_wanted(struct owner *owner, uint32_t pages)
{
    const uint32_t left = owner->trimmed_pages_released;
    owner->trimmed_pages_released = left > pages ? left - pages : 0;
    if (left <= pages) owner->trimmed_is_wanted = true;
}

/* --- memory that a slab begins with, and leaves ------------------------------------------------------------ */

/* The bits of page i's hollow_pages for the system's pages that lie wholly in [first, end), offsets in the slab. */
static uint16_t whole_bits(const struct layout *at, uint32_t i, uint32_t first, uint32_t end)
{
    uint32_t low = (first + at->os_bytes - 1) / at->os_bytes, high = end / at->os_bytes, page = i * at->os_pages;
    low = low > page ? low - page : 0;
    high = high > page ? high - page : 0;
    if (high > at->os_pages) high = at->os_pages;
    return low < high ? (uint16_t)((1u << high) - (1u << low)) : 0;
}

void slab_begin_dirty(struct slab *slab, const struct page_range *range, bool at_once)
{
    struct layout at = layout_of(slab);
    slab->fresh = at_once && at.os_pages != 0 && at.os_pages <= OS_PAGES_MAX;
    for (uint32_t i = 0; !slab->fresh && i < slab->page_count; i++) slab[i].hollow_pages = 0;
    if (!slab->fresh) return;
    const uint32_t used_end = at.colour + slab->capacity * at.block_bytes;
    const uint16_t every = whole_bits(&at, 0, 0, PAGE_BYTES);
    bool is_zero = true;
    for (uint32_t i = 0; i < slab->page_count; i++) {
        uint16_t zero = page_zero_bits(range, slab, i) & every;
        is_zero = is_zero && zero == every;
        /* A page behind the last block has nothing to carve. */
        if (zero != 0) zero &= whole_bits(&at, i, 0, (used_end + at.os_bytes - 1) / at.os_bytes * at.os_bytes);
        slab[i].hollow_pages = zero;
    }
    if (is_zero) { /* then it is carved in order, as fresh memory is */
        for (uint32_t i = 0; i < slab->page_count; i++) slab[i].hollow_pages = 0;
        return;
    }
    slab->hollow = any_hollow(slab);
    struct idle idle;
    memset(idle.words, 0, word_count(&at) * sizeof(uint64_t));
    idle_set(&idle, 0, slab->capacity);
    slab->carved_count = (uint16_t)remark(&at, &idle);
    owner_carved_bytes_add(slab->owner, (size_t)slab->carved_count * at.block_bytes);
}

void slab_end_untouched(struct slab *slab)
{
    struct layout at = layout_of(slab);
    if (at.os_pages == 0 || at.os_pages > OS_PAGES_MAX) return;
    const uint32_t carved_end = (uint32_t)slab->carve_start + slab->carved_count;
    const bool wraps = carved_end >= slab->capacity;
    const uint32_t first = at.colour + (wraps ? carved_end - slab->capacity : carved_end) * at.block_bytes;
    const uint32_t start = at.colour + slab->carve_start * at.block_bytes,
                   end = slab->page_count * (uint32_t)PAGE_BYTES;
    uint64_t partial = 0;
    for (uint32_t i = 0; i < slab->page_count; i++) {
        if (!slab->hollow && wraps) slab[i].hollow_pages = whole_bits(&at, i, first, start);
        if (!slab->hollow && !wraps)
            slab[i].hollow_pages = whole_bits(&at, i, first, end) | whole_bits(&at, i, 0, start);
        if (slab[i].hollow_pages != 0) partial |= 1ull << (slab->page_index + i);
    }
    superslab_partial_set(superslab_of(slab), slab->page_index, slab->page_count, partial);
}

/* --- carving trimmed memory
 * ---------------------------------------------------------------------------------------- */

/* Marks the pages that a block touches as not hollow. Bit i of the result is set if page first + i was hollow before,
 * where first is the first page that the block touches. */
static uint32_t fill(const struct layout *at, uint32_t block)
{
    uint32_t first = first_os_page(at, block), filled = 0;
    for (uint32_t os_page = first; os_page <= last_os_page(at, block); os_page++) {
        if (!is_hollow(at, os_page)) continue;
        hollow_set(at, os_page, false);
        filled |= 1u << (os_page - first);
    }
    return filled;
}

/* Whether a block touches one of the pages in the result of fill(). */
static bool touches_filled(const struct layout *at, uint32_t block, uint32_t first, uint32_t filled)
{
    for (uint32_t os_page = first_os_page(at, block); os_page <= last_os_page(at, block); os_page++)
        if (os_page - first < 32 && (filled >> (os_page - first) & 1) != 0) return true;
    return false;
}

struct block *slab_carve_hollow(struct slab *slab, uint32_t *count)
{
    struct layout at = layout_of(slab);
    uint32_t os_page = 0, os_page_end = os_page_count(&at);
    while (os_page < os_page_end && !is_hollow(&at, os_page)) os_page++;
    if (os_page == os_page_end) broken(BROKEN_hollow, slab->class_index, slab);
    uint32_t block = first_block(&at, os_page);
    uint32_t first = first_os_page(&at, block), end = end_block(&at, last_os_page(&at, block));
    uint32_t filled = fill(&at, block);
    struct block *list = NULL, **tail = &list;
    if (slab->was_trimmed) slab->owner->trimmed_is_wanted = true;
    *count = 0;
    for (; block < end; block++) {
        /* A block that also touches a page that is still hollow is carved with that one. */
        if (!touches_filled(&at, block, first, filled) || touches_hollow(&at, block)) continue;
        link_set(tail, block_at(&at, block));
        tail = &link_get(tail)->next;
        ++*count;
    }
    link_set(tail, NULL);
    slab->carved_count = (uint16_t)(slab->carved_count + *count);
    owner_carved_bytes_add(slab->owner, (size_t)*count * at.block_bytes);
    slab->hollow = any_hollow(slab);
    return list;
}
