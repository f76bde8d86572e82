/* take.c: see take.h. */
#include "slab/take.h"

#include "report/broken.h"
#include "slab/hollow.h"
#include "slab/slab_inside.h"
#include "superslab/limit.h"

enum { WORD_BITS = 64 };

/* --- what is carved at once -------------------------------------------------------------------- */

/* Fresh memory is carved in parts of CARVE_BYTES, a page of the system each. A part's blocks are those that start in
 * it. A refill carves one part, or the parts of TAKE_BYTES_MAX once the class has CARVE_MUCH_BYTES in use. */

/* The index of the first block that starts in or behind a part; the capacity if there is none. */
static uint32_t part_first(const struct slab *slab, uint32_t part)
{
    uint32_t block_bytes = sizeclass_bytes(slab->class_index), colour = slab_colour(slab);
    uint32_t offset = part * CARVE_BYTES;
    uint32_t index = offset <= colour ? 0 : (offset - colour + block_bytes - 1) / block_bytes;
    return index < slab->capacity ? index : slab->capacity;
}

/* The block behind the last one of a refill that carves from `first` on. */
static uint32_t carve_end(const struct slab *slab, uint32_t first)
{
    const uint32_t block_bytes = sizeclass_bytes(slab->class_index), offset = slab_colour(slab) + first * block_bytes;
    const size_t used_bytes = (size_t)owner_used_blocks(slab->owner, slab->class_index) * block_bytes;
    const bool is_much = used_bytes >= CARVE_MUCH_BYTES && !slab->owner->has_limit && limit_get() == SIZE_MAX;
    const uint32_t parts = is_much ? (uint32_t)TAKE_BYTES_MAX / CARVE_BYTES : 1;
    const uint32_t end = part_first(slab, offset / CARVE_BYTES + parts);
    return first < slab->carve_start && end > slab->carve_start ? slab->carve_start : end;
}

uint32_t slab_carve_start(const struct slab *slab)
{
    uint32_t parts = slab->page_count * (uint32_t)(PAGE_BYTES / CARVE_BYTES);
    return part_first(slab, slab->page_index % parts) % slab->capacity;
}

/* The block of a part that heads the list. Parts start at page boundaries, which map to one cache set: start the list
 * at a different block of the part in each slab. */
static uint32_t carve_turn(const struct slab *slab, uint32_t count)
{
    uint32_t offset = slab->page_index * (uint32_t)CARVE_STRIDE_BYTES % CARVE_BYTES;
    return offset / sizeclass_bytes(slab->class_index) % count;
}

/* --- blocks ------------------------------------------------------------------------------------- */

static struct block *block_at(char *start, uint32_t index, uint32_t block_bytes)
{
    return (struct block *)(void *)(start + (size_t)index * block_bytes);
}

/* Links the blocks from first to last, which follow each other in memory. */
static void link_row(struct block *first, struct block *last, uint32_t block_bytes)
{
    while (first != last) {
        struct block *next = block_at((char *)first, 1, block_bytes);
        link_set(&first->next, next);
        first = next;
    }
}

static struct block *slab_carve(struct slab *slab)
{
    uint32_t block_bytes = sizeclass_bytes(slab->class_index);
    uint32_t first = (uint32_t)slab->carve_start + slab->carved_count;
    if (first >= slab->capacity) first -= slab->capacity;
    uint32_t count = carve_end(slab, first) - first, turn = carve_turn(slab, count);

    char *start = slab_start(superslab_of(slab), slab) + (size_t)first * block_bytes;
    struct block *head = block_at(start, turn, block_bytes), *tail = block_at(start, count - 1, block_bytes);
    link_row(head, tail, block_bytes);
    if (turn > 0) {
        struct block *lowest = block_at(start, 0, block_bytes);
        link_set(&tail->next, lowest);
        tail = block_at(start, turn - 1, block_bytes);
        link_row(lowest, tail, block_bytes);
    }
    link_set(&tail->next, NULL);
    slab->carved_count = (uint16_t)(slab->carved_count + count);
    owner_carved_bytes_add(slab->owner, (size_t)count * block_bytes);
    used_add(slab, count);
    return head;
}

/* Free blocks that the owner gave back have bits instead of links: a give-back does not touch the block, a take does not follow
 * a chain of cache misses, and the list comes out in the order of the addresses, which the program then walks and the processor
 * fetches ahead. (jemalloc keeps such bitmaps, and gives a slab's lowest block first.) Bit i is block i. To divide the offset of a
 * block from the start of the slab's pages gives i, since a colour is less than a block. */

/* How many blocks a refill takes of left_count that are there. Under a limit on memory it takes less, since what lies in one bin
 * is what another class lacks. */
static uint32_t take_count(uint32_t left_count, uint32_t block_bytes)
{
    if (left_count > TAKE_MAX) left_count = TAKE_MAX;
    const uint32_t bytes_max = HAK_LIKELY(limit_get() == SIZE_MAX) ? TAKE_BYTES_MAX : CARVE_BYTES;
    if (left_count * block_bytes <= bytes_max) return left_count;
    return block_bytes < bytes_max ? bytes_max / block_bytes : 1;
}

/* Takes the first blocks that have marks, as many as take_count says, so that the time of one malloc is bounded. */
static struct block *take_marked(struct slab *slab)
{
    const uint32_t block_bytes = sizeclass_bytes(slab->class_index);
    uint64_t *word = slab_marks(slab), *end = word + sizeof(mark_words) / sizeof *word;
    char *start = slab_start(superslab_of(slab), slab);
    uint32_t left = take_count(slab->carved_count - used_get(slab) - slab->linked_count, block_bytes);
    const uint32_t wanted = left;
    struct block *list = NULL, **link = &list;
    for (; left > 0 && word < end; word++, start += (size_t)WORD_BITS * block_bytes) {
        uint64_t bits = *word;
        if (bits == 0) continue;
        while (bits != 0 && left > 0) {
            const uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            struct block *block = block_at(start, bit, block_bytes);
            link_set(link, block);
            link = &block->next;
            left--;
            bits &= bits - 1;
            if ((bits >> bit & 2) == 0) continue;
            /* A row of blocks, as in a slab that has just begun. */
            const uint64_t others = ~bits >> bit >> 1;
            uint32_t more = others != 0 ? (uint32_t)__builtin_ctzll(others) : WORD_BITS - 1 - bit;
            if (more > left) more = left;
            struct block *last = block_at((char *)block, more, block_bytes);
            link_row(block, last, block_bytes);
            link = &last->next;
            left -= more;
            bits &= ~(((1ull << more) - 1) << bit << 1);
        }
        *word = bits;
    }
    if (HAK_UNLIKELY(left > 0)) broken(BROKEN_free, slab->class_index, slab); /* a block came back twice */
    link_set(link, NULL);
    used_add(slab, wanted);
    return list;
}

struct block *slab_take(struct slab *slab)
{
    struct block *list = slab->free;
    if (list != NULL) {
        slab->free = NULL;
        used_add(slab, slab->linked_count);
        slab->linked_count = 0;
    } else if (slab_has_free(slab)) {
        list = take_marked(slab);
    } else if (HAK_UNLIKELY(slab->hollow)) {
        uint32_t count;
        list = slab_carve_hollow(slab, &count);
        used_add(slab, count);
    } else {
        list = slab_carve(slab);
    }
    if (used_get(slab) == slab->capacity) list_remove(slab);
    return list;
}

struct block *slab_take_one(struct slab *slab)
{
    struct block *block = slab->free;
    if (block != NULL) {
        slab->free = link_get(&block->next);
        slab->linked_count--;
    } else if (slab_has_free(slab)) {
        const uint32_t block_bytes = sizeclass_bytes(slab->class_index);
        uint64_t *marks = slab_marks(slab);
        uint32_t word = 0;
        while (word < sizeof(mark_words) / sizeof *marks - 1 && marks[word] == 0) word++;
        if (HAK_UNLIKELY(marks[word] == 0)) broken(BROKEN_free, slab->class_index, slab);
        uint32_t bit = word * WORD_BITS + (uint32_t)__builtin_ctzll(marks[word]);
        marks[word] &= marks[word] - 1;
        block = block_at(slab_start(superslab_of(slab), slab), bit, block_bytes);
    } else {
        return NULL;
    }
    used_add(slab, 1);
    if (used_get(slab) == slab->capacity) list_remove(slab);
    return block;
}
