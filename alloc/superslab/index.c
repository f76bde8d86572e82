/* index.c: see index.h. */
#include "superslab/index.h"

#include "base/bits.h"
#include "base/sync_point.h"
#include "os/meta.h"

enum {
    LEVEL_CHUNKS = 2, /* level 0: superslabs; 1: eight of them; 2: a chunk each */
    LEVELS = 7,
    FAN_LOG2 = 3,
    UPPER_WORDS = CHUNKS_MAX + CHUNKS_MAX / 8 + CHUNKS_MAX / 64 + CHUNKS_MAX / 512 + INDEX_FAN,
};

static_assert(INDEX_FAN == 1 << FAN_LOG2, "a node's children");
static_assert(CHUNKS_MAX >> FAN_LOG2 * (LEVELS - 1 - LEVEL_CHUNKS) <= INDEX_FAN, "the last level is one line");
static_assert(offsetof(struct chunk, superslabs) % CACHE_LINE_BYTES == 0, "descriptors stay on their lines");

static _Atomic(struct chunk *) chunks[CHUNKS_MAX];
static _Atomic(uint32_t) count;

/* The levels from LEVEL_CHUNKS on, one behind the other. */
static alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) upper[UPPER_WORDS];
static const uint32_t first_of_level[LEVELS] = {
    [3] = CHUNKS_MAX,
    [4] = CHUNKS_MAX + CHUNKS_MAX / 8,
    [5] = CHUNKS_MAX + CHUNKS_MAX / 8 + CHUNKS_MAX / 64,
    [6] = CHUNKS_MAX + CHUNKS_MAX / 8 + CHUNKS_MAX / 64 + CHUNKS_MAX / 512,
};

/* The level whose first line has all superslabs below it: words above it are not in use yet. */
static _Atomic(uint32_t) top_level = 1;

uint32_t chunk_count(void)
{
    /* acquire: pairs with chunk_make, so that all chunks that it counts are seen. */
    return atomic_load_explicit(&count, memory_order_acquire);
}

struct chunk *chunk_at(uint32_t index)
{
    /* relaxed: the caller got the index from the count that published the chunk, or from a superslab in it. */
    return atomic_load_explicit(&chunks[index], memory_order_relaxed);
}

/* --- words of eight bytes, none above 64 -------------------------------------------------------- */

static const uint64_t TOPS = 0x8080808080808080u;
static const uint64_t RUNS = 0x0000010101010101u;      /* 1 in each byte of a run */
static const uint64_t LESS_ONE = 0x00001f0f07030100u;  /* the alignment of each byte, less one */

/* 0xff in each byte whose top bit is set. */
static uint64_t spread(uint64_t tops)
{
    return ((tops & TOPS) >> 7) * 0xff;
}

/* Byte for byte the higher one. */
static uint64_t highest(uint64_t one, uint64_t other)
{
    const uint64_t not_less = ((one | TOPS) - other) & TOPS;
    if (not_less == TOPS) return one;
    const uint64_t mask = not_less - (not_less >> 7); /* 0x7f in each such byte */
    return (one & mask) | (other & ~mask);
}

/* Whether no byte of `word` is higher than that of `high`. */
static bool covers(uint64_t high, uint64_t word)
{
    return (((high | TOPS) - word) & TOPS) == TOPS;
}

static uint64_t word_of_byte(uint32_t byte, uint64_t value)
{
    return value << 8 * byte;
}

/* What the free pages [start, end) can serve: from the first aligned page on. */
static uint64_t word_of_run(uint32_t start, uint32_t end)
{
    uint64_t starts = (start * RUNS + LESS_ONE) & ~LESS_ONE;
    uint64_t lengths = (end * RUNS | TOPS) - starts; /* the top bit is set if the length is not negative */
    return lengths & ~TOPS & spread(lengths);
}

/* The end of the free pages in a row that begin at a free page. */
static uint32_t run_end(uint64_t free_pages, uint32_t first)
{
    uint64_t used = ~(free_pages >> first);
    return used == 0 ? SUPERSLAB_PAGES : first + (uint32_t)__builtin_ctzll(used);
}

/* What a superslab's word should say. */
struct look {
    uint64_t free_pages;
    bool absent;
};

static struct look look_at(const struct superslab *superslab)
{
    /* seq_cst, twice: the pages and the bit after the word, see node_raise. A superslab that is absent has no free page. */
    uint64_t present = atomic_load_explicit(&chunk_of(superslab)->present, memory_order_seq_cst);
    return (struct look){
        .free_pages = atomic_load_explicit(&superslab->free_pages, memory_order_seq_cst),
        .absent = (present >> superslab->index % CHUNK_SUPERSLABS & 1) == 0,
    };
}

static uint64_t word_of(struct look look)
{
    if (look.absent) return word_of_byte(INDEX_ABSENT, 1);
    uint64_t word = 0;
    for (uint64_t left = look.free_pages; left != 0;) {
        uint32_t first = (uint32_t)__builtin_ctzll(left), end = run_end(left, first);
        word = highest(word, word_of_run(first, end));
        left &= ~bits_range(first, end - first);
    }
    return word;
}

/* --- the tree ----------------------------------------------------------------------------------- */

static _Atomic(uint64_t) *node_at(uint32_t level, uint32_t index)
{
    if (level == 0) return &chunk_at(index / CHUNK_SUPERSLABS)->words[index % CHUNK_SUPERSLABS];
    const uint32_t groups = CHUNK_SUPERSLABS / INDEX_FAN;
    if (level == 1) return &chunk_at(index / groups)->groups[index % groups];
    return &upper[first_of_level[level] + index];
}

/* mask: the byte that is asked for; least: in its place. */
static bool has(const _Atomic(uint64_t) *node, uint64_t mask, uint64_t least)
{
    /* acquire: pairs with node_raise, so that the superslab's index is there. */
    return (atomic_load_explicit(node, memory_order_acquire) & mask) >= least;
}

uint32_t index_byte(uint32_t align_pages)
{
    uint32_t byte = log2_floor(align_pages);
    return byte < INDEX_ALIGNS ? byte : INDEX_ALIGNS - 1;
}

/* Goes right through the line of its place. At the line's end it continues behind the parent; at a node that has what
 * is wanted, with the first of the node's children. */
uint32_t index_find(uint32_t byte, uint32_t least, uint32_t from)
{
    const uint64_t end = (uint64_t)chunk_count() * CHUNK_SUPERSLABS;
    const uint64_t mask = word_of_byte(byte, 0xff), wanted = word_of_byte(byte, least);
    uint32_t level = 0, at = from;
    while ((uint64_t)at << FAN_LOG2 * level < end) {
        const _Atomic(uint64_t) *node = node_at(level, at);
        uint32_t left = INDEX_FAN - at % INDEX_FAN;
        while (left > 0 && !has(node, mask, wanted)) node++, at++, left--;
        if (left > 0) {
            if (level == 0) return at;
            level--;
            at *= INDEX_FAN;
            continue;
        }
        do {
            level++;
            at /= INDEX_FAN;
        } while (at % INDEX_FAN == 0);
    }
    return INDEX_NONE;
}

/* Raises a node's word to `word`. Returns what it is then. */
static uint64_t node_raise(_Atomic(uint64_t) *node, uint64_t word)
{
    /* seq_cst: the word after what it stands for has changed. Either this load sees that node_lower lowered the word, or
     * node_lower's second look sees the change. */
    for (;;) {
        uint64_t old = atomic_load_explicit(node, memory_order_seq_cst);
        if (covers(old, word)) return old;
        const uint64_t high = highest(old, word);
        /* relaxed on failure: it is loaded again. */
        if (atomic_compare_exchange_weak_explicit(node, &old, high, memory_order_seq_cst, memory_order_relaxed))
            return high;
    }
}

/* Each node gets all of its child's word, so that it also has what a thread raised that is gone: a child of fork. */
static void raise(uint32_t level, uint32_t at, uint64_t word)
{
    for (;; level++, at /= INDEX_FAN) {
        word = node_raise(node_at(level, at), word);
        /* relaxed: who found the superslab sees the level that chunk_make set for it. */
        if (level >= atomic_load_explicit(&top_level, memory_order_relaxed)) return;
    }
}

void index_raise(struct superslab *superslab)
{
    raise(0, superslab->index, word_of(look_at(superslab)));
}

void index_raise_run(struct superslab *superslab, uint64_t free_pages, uint32_t first, uint32_t pages)
{
    uint64_t used_below = ~free_pages & ~(~0ull << first);
    uint32_t start = used_below == 0 ? 0 : log2_floor(used_below) + 1;
    raise(0, superslab->index, word_of_run(start, run_end(free_pages, first + pages - 1)));
}

/* Whether the leaf's word was too high. */
static bool leaf_lower(struct superslab *superslab)
{
    _Atomic(uint64_t) *leaf = node_at(0, superslab->index);
    uint64_t old = atomic_load_explicit(leaf, memory_order_relaxed), now; /* relaxed: the exchange decides */
    struct look look;
    do {
        look = look_at(superslab);
        now = word_of(look);
        if (covers(now, old)) return false;
    } while (!atomic_compare_exchange_weak_explicit(leaf, &old, now, memory_order_seq_cst, memory_order_relaxed));
    sync_point("index_lower");
    struct look again = look_at(superslab); /* see node_raise */
    if (again.free_pages != look.free_pages || again.absent != look.absent) raise(0, superslab->index, word_of(again));
    return true;
}

/* The highest of the children's words. */
static uint64_t node_now(uint32_t level, uint32_t at)
{
    const _Atomic(uint64_t) *child = node_at(level - 1, at * INDEX_FAN);
    uint64_t word = 0;
    for (uint32_t i = 0; i < INDEX_FAN; i++)
        word = highest(word, atomic_load_explicit(&child[i], memory_order_seq_cst)); /* see node_raise */
    return word;
}

/* Whether the node's word was too high. */
static bool node_lower(uint32_t level, uint32_t at)
{
    _Atomic(uint64_t) *node = node_at(level, at);
    uint64_t old = atomic_load_explicit(node, memory_order_relaxed), now; /* as in leaf_lower */
    do {
        now = node_now(level, at);
        if (covers(now, old)) return false;
    } while (!atomic_compare_exchange_weak_explicit(node, &old, now, memory_order_seq_cst, memory_order_relaxed));
    sync_point("index_lower");
    uint64_t again = node_now(level, at); /* see node_raise */
    if (!covers(now, again)) raise(level, at, again);
    return true;
}

void index_lower(struct superslab *superslab)
{
    if (!leaf_lower(superslab)) return;
    uint32_t level = 1, at = superslab->index / INDEX_FAN;
    for (; node_lower(level, at); level++, at /= INDEX_FAN)
        if (level >= atomic_load_explicit(&top_level, memory_order_relaxed)) return;
}

/* --- chunks, under the POOL lock ---------------------------------------------------------------- */

struct chunk *chunk_make(void)
{
    uint32_t index = atomic_load_explicit(&count, memory_order_relaxed);
    if (index >= CHUNKS_MAX) return NULL;
    struct chunk *chunk = meta_alloc(sizeof *chunk);
    if (chunk == NULL) return NULL;
    const uint64_t absent = word_of_byte(INDEX_ABSENT, 1);
    for (uint32_t i = 0; i < CHUNK_SUPERSLABS; i++)
        atomic_store_explicit(&chunk->words[i], absent, memory_order_relaxed);
    for (uint32_t i = 0; i < CHUNK_SUPERSLABS / INDEX_FAN; i++)
        atomic_store_explicit(&chunk->groups[i], absent, memory_order_relaxed);
    atomic_store_explicit(&chunks[index], chunk, memory_order_relaxed);
    /* release: publishes the chunk; pairs with the acquires of the count. */
    atomic_store_explicit(&count, index + 1, memory_order_release);
    uint32_t top = 1;
    while (index >> FAN_LOG2 * (top - 1) != 0) top++;
    if (top > atomic_load_explicit(&top_level, memory_order_relaxed)) {
        /* relaxed: the superslabs below the new words are published later, by their pages. No search looks at the first node
         * of a level, which is what the old superslabs have there. */
        atomic_store_explicit(&top_level, top, memory_order_relaxed);
        raise(top, 0, node_now(top, 0));
    }
    if (top >= LEVEL_CHUNKS) raise(LEVEL_CHUNKS, index, absent);
    return chunk;
}
