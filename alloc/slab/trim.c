/* trim.c: see trim.h. */
#include "slab/trim.h"

#include "os/os.h"
#include "report/broken.h"
#include "slab/layout.h"
#include "superslab/purge.h"
#include "superslab/round.h"

enum { /* what may_go, and what the rest of a trim of one slab, counts in a step's blocks */
       TRIM_GLANCE_BLOCKS = 8,
       TRIM_LOOK_BLOCKS = 32,
};

/* --- one slab ---------------------------------------------------------------------------------------- */

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

/* What a step of a trim may still do. */
struct budget {
    uint32_t slabs, calls;
    int64_t blocks; /* below 0: more than the step had, since it finishes the slab that it looks at */
    size_t bytes; /* given back: enough */
    bool has_more; /* the calls did not suffice for all rows of the last slab */
};

static size_t trim(struct slab *slab, struct budget *left)
{
    left->has_more = false;
    if (!slab_has_free(slab)) return 0;
    struct layout at = layout_of(slab);
    if (!has_os_pages(&at)) return 0;
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
    if (carved == used) { /* nothing is left */
        left->has_more = false;
        slab->trimmed = true;
    }
    return (size_t)gone * at.os_bytes;
}

/* --- all slabs of an owner ----------------------------------------------------------------------------- */

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
        const bool is_due = !slab->trimmed;
        if (is_due) bytes += trim(slab, left);
        if (left->has_more) return bytes; /* the next step begins with the rest of this slab */
        trim_advance(owner, slab);
        /* The walk then passes it once more, and finds that it was trimmed. */
        if (is_due && slab->trimmed && owner->tag == CLASS_OWN && !slab_has_free(slab)) slab_list_back(slab);
        if (left->blocks <= 0 || left->calls == 0 || bytes >= left->bytes) return bytes;
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
    struct budget left = {TRIM_STEP_SLABS, calls, TRIM_STEP_BLOCKS - owner->trim_ahead, SIZE_MAX, false};
    size_t bytes = trim_until(owner, &left);
    round_calls_made(calls - left.calls);
    owner->trim_ahead = left.blocks < 0 ? (uint32_t)-left.blocks : 0;
    return bytes;
}

size_t slab_trim_some(struct owner *owner, size_t enough_bytes)
{
    struct budget left = {UINT32_MAX, UINT32_MAX, INT64_MAX, enough_bytes, false};
    return trim_until(owner, &left);
}

size_t slab_trim_all(struct owner *owner)
{
    slab_trim_begin(owner);
    return slab_trim_some(owner, SIZE_MAX);
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
