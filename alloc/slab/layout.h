/* layout.h: where the blocks of a slab and the system's pages lie that they touch, which of those are hollow (trim.h), and bits
 * for the blocks that hold nothing. For trim.c and hollow.c. Only the thread that holds the slab's owner, or visits it, may call
 * these functions. */
#pragma once

#include "os/os.h"
#include "slab/slab.h"

enum {
    WORD_BITS = 64,
    BLOCKS_MAX = PAGE_BYTES / GRANULE_BYTES, /* slabs of more pages have larger and fewer blocks */
    OS_PAGES_MAX = 16, /* system pages in one of our pages: bits of hollow_pages */
    SLAB_PAGES_MAX = 8,
};

static_assert(SLAB_PAGES_MAX * PAGE_BYTES / (PAGE_BYTES / SLAB_BLOCKS_MIN) <= BLOCKS_MAX, "no slab has more blocks");

/* The layout of a slab: its blocks, and the system's pages that they lie on. */
struct layout {
    struct slab *slab;
    char *start; /* of the slab's pages */
    uint32_t colour; /* bytes from start to the first block: less than a page of the system */
    uint32_t block_bytes;
    uint32_t os_bytes;
    uint32_t os_pages; /* in one of our pages */
};

static inline struct layout layout_of(struct slab *slab)
{
    uint32_t os_bytes = (uint32_t)os_page_bytes();
    return (struct layout){.slab = slab,
                           .start = superslab_page_start(superslab_of(slab), slab),
                           .colour = slab_colour(slab),
                           .block_bytes = sizeclass_bytes(slab->class_index),
                           .os_bytes = os_bytes,
                           .os_pages = PAGE_BYTES / os_bytes};
}

static inline uint32_t os_page_count(const struct layout *at)
{
    return at->slab->page_count * at->os_pages;
}

static inline bool is_hollow(const struct layout *at, uint32_t os_page)
{
    return (at->slab[os_page / at->os_pages].hollow_pages >> os_page % at->os_pages & 1) != 0;
}

static inline void hollow_set(const struct layout *at, uint32_t os_page, bool hollow)
{
    uint16_t *bits = &at->slab[os_page / at->os_pages].hollow_pages;
    uint32_t bit = 1u << os_page % at->os_pages;
    *bits = (uint16_t)(hollow ? *bits | bit : *bits & ~bit);
}

/* The first and last system page that a block touches. The first block that touches a system page, and the block after
 * the last one; both are the capacity if the page lies behind the last block. */
static inline uint32_t first_os_page(const struct layout *at, uint32_t block)
{
    return (at->colour + block * at->block_bytes) / at->os_bytes;
}

static inline uint32_t last_os_page(const struct layout *at, uint32_t block)
{
    return (at->colour + (block + 1) * at->block_bytes - 1) / at->os_bytes;
}

static inline uint32_t first_block(const struct layout *at, uint32_t os_page)
{
    uint32_t offset = os_page * at->os_bytes;
    uint32_t block = offset < at->colour ? 0 : (offset - at->colour) / at->block_bytes;
    return block < at->slab->capacity ? block : at->slab->capacity;
}

static inline uint32_t end_block(const struct layout *at, uint32_t os_page)
{
    uint32_t block = ((os_page + 1) * at->os_bytes - 1 - at->colour) / at->block_bytes + 1;
    return block < at->slab->capacity ? block : at->slab->capacity;
}

/* Whether a page of the system is neither longer than one of ours nor too short for hollow_pages. */
static inline bool has_os_pages(const struct layout *at)
{
    return at->os_pages != 0 && at->os_pages <= OS_PAGES_MAX;
}

/* A bit for each block, set if the block is free, touches a hollow page, or has not been carved. */
struct idle {
    mark_words words;
};

/* The bits of one word that stand for blocks in [first, end). */
static inline uint64_t word_part(uint32_t word, uint32_t first, uint32_t end)
{
    uint32_t start = word * WORD_BITS;
    uint64_t from = first <= start ? ~0ull : ~0ull << (first - start);
    uint64_t to = end >= start + WORD_BITS ? ~0ull : ~(~0ull << (end - start));
    return from & to;
}

static inline void idle_set(struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        idle->words[word] |= word_part(word, first, end);
}

static inline void idle_clear(struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        idle->words[word] &= ~word_part(word, first, end);
}

static inline bool idle_has(const struct idle *idle, uint32_t first, uint32_t end)
{
    for (uint32_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        if ((~idle->words[word] & word_part(word, first, end)) != 0) return false;
    return true;
}

/* How many words hold the slab's bits; the others are not used. */
static inline uint32_t word_count(const struct layout *at)
{
    return (at->slab->capacity + WORD_BITS - 1u) / WORD_BITS;
}

/* Not by memcpy: malloc gets here by its clock, and a program's own memcpy may call malloc. */
static inline void copy_words(uint64_t *to, const uint64_t *from, uint32_t count)
{
    for (uint32_t word = 0; word < count; word++) {
        to[word] = from[word];
        __asm__ volatile("" : : : "memory"); /* else the compiler makes a call of the loop */
    }
}

static inline uint32_t idle_count(const struct layout *at, const struct idle *idle)
{
    uint32_t count = 0;
    for (uint32_t word = 0; word * WORD_BITS < at->slab->capacity; word++)
        count += (uint32_t)__builtin_popcountll(idle->words[word]);
    return count;
}

/* The idle blocks that touch no hollow page are free. Returns how many they are. */
static inline uint32_t remark(const struct layout *at, struct idle *idle)
{
    for (uint32_t os_page = 0; os_page < os_page_count(at); os_page++)
        if (is_hollow(at, os_page)) idle_clear(idle, first_block(at, os_page), end_block(at, os_page));
    copy_words(slab_marks(at->slab), idle->words, word_count(at));
    return idle_count(at, idle);
}

static inline bool any_hollow(const struct slab *slab)
{
    for (uint32_t page = 0; page < slab->page_count; page++)
        if (slab[page].hollow_pages != 0) return true;
    return false;
}
