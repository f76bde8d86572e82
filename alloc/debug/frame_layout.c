/* frame_layout.c: see frame_layout.h. Frames are poisoned for the program, so functions that read them are
 * HAK_UNWATCHED. */
#include "debug/frame_layout.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bits.h"
#include "base/config.h"
#include "os/peek.h"
#include "os/sanitizer.h"

enum {
    SIZE_BITS = 48, /* fields of the word, from its low end: size, family, log2 of the alignment, state */
    FAMILY_BITS = 4,
    ALIGN_BITS = 6,
    FAMILY_SHIFT = SIZE_BITS,
    ALIGN_SHIFT = FAMILY_SHIFT + FAMILY_BITS,
    STATE_SHIFT = ALIGN_SHIFT + ALIGN_BITS,
};

static_assert(HAK_ADDRESS_BITS <= SIZE_BITS, "a block's size fits the word");
static_assert(STATE_SHIFT < 64, "the state fits the word");

/* A frame's front: the 16 bytes before the program's block. */
struct front {
    /* relaxed: threads that use one block without any order between them have no order to keep. */
    _Atomic(uint64_t) word;
    uint64_t check;
};

static struct front *front_of(const char *user)
{
    return (struct front *)(void *)(user - sizeof(struct front));
}

static uint64_t *copy_of(char *start, size_t bytes)
{
    return (uint64_t *)(void *)(start + bytes - sizeof(uint64_t));
}

static uint64_t without_state(uint64_t word)
{
    return word & ~(~0ull << STATE_SHIFT);
}

/* The check leaves out the state, which changes alone, so that two threads which free one block at the same time both
 * find the check correct. */
static uint64_t check_of(uint64_t word, const char *user)
{
    return bits_mix(without_state(word) ^ bits_mix((uintptr_t)user));
}

static uint64_t key_of_copy(const char *start)
{
    return bits_mix((uintptr_t)start + 1);
}

static uint64_t pack(const struct frame_word *word)
{
    uint64_t align_log2 = word->align_bytes == 0 ? 0 : log2_floor(word->align_bytes) + 1;
    return (uint64_t)word->size_bytes | (uint64_t)word->family << FAMILY_SHIFT | align_log2 << ALIGN_SHIFT |
           (uint64_t)word->state << STATE_SHIFT;
}

static struct frame_word unpack(uint64_t word)
{
    uint64_t align_log2 = word >> ALIGN_SHIFT & ((1u << ALIGN_BITS) - 1);
    return (struct frame_word){
        .size_bytes = (size_t)(word & ((1ull << SIZE_BITS) - 1)),
        .align_bytes = align_log2 == 0 ? 0 : (size_t)1 << (align_log2 - 1),
        .family = (enum frame_family)(word >> FAMILY_SHIFT & ((1u << FAMILY_BITS) - 1)),
        .state = (enum frame_state)(word >> STATE_SHIFT),
    };
}

/* --- fills ------------------------------------------------------------------------------------------- */

static char *fill_start(const struct framed *framed)
{
    size_t bytes = (size_t)(framed->user - framed->start) - FRAME_FRONT_BYTES;
    return framed->user - FRAME_FRONT_BYTES - (bytes < FRAME_FILL_MAX ? bytes : FRAME_FILL_MAX);
}

static size_t fill_bytes(const struct framed *framed)
{
    return (size_t)(framed->user - FRAME_FRONT_BYTES - fill_start(framed));
}

static size_t canary_bytes(const struct framed *framed)
{
    const char *end = framed->start + framed->bytes - sizeof(uint64_t);
    size_t bytes = (size_t)(end - (framed->user + framed->word.size_bytes));
    return bytes < FRAME_FILL_MAX ? bytes : FRAME_FILL_MAX;
}

void frame_write(const struct framed *framed)
{
    uint64_t word = pack(&framed->word);
    if (ASAN) sanitizer_open(framed->start, framed->bytes);
    memset(fill_start(framed), FRAME_FILL, fill_bytes(framed));
    memset(framed->user + framed->word.size_bytes, FRAME_FILL, canary_bytes(framed));
    *copy_of(framed->start, framed->bytes) = without_state(word) ^ key_of_copy(framed->start);
    struct front *front = front_of(framed->user);
    front->check = check_of(word, framed->user);
    atomic_store_explicit(&front->word, word, memory_order_relaxed);
    if (ASAN) sanitizer_resized(framed->start, framed->bytes, framed->user, framed->word.size_bytes);
}

/* --- reading ------------------------------------------------------------------------------------------- */

static bool plausible(const struct framed *framed)
{
    size_t front = (size_t)(framed->user - framed->start);
    return framed->word.family <= FAMILY_NEW_ARRAY && front + FRAME_REAR_BYTES <= framed->bytes &&
           framed->word.size_bytes <= framed->bytes - front - FRAME_REAR_BYTES;
}

HAK_UNWATCHED bool frame_read(const struct lookup *at, const void *pointer, struct framed *framed)
{
    char *user = (char *)(uintptr_t)pointer;
    if (at->start == NULL || (uintptr_t)user % GRANULE_BYTES != 0 || user < at->start + FRAME_FRONT_BYTES ||
        user > at->start + at->bytes - FRAME_REAR_BYTES)
        return false;
    uint64_t word = atomic_load_explicit(&front_of(user)->word, memory_order_relaxed);
    *framed = (struct framed){at->start, at->bytes, user, unpack(word)};
    bool is_state = framed->word.state == FRAME_LIVE || framed->word.state == FRAME_FREED;
    return is_state && front_of(user)->check == check_of(word, user) && plausible(framed);
}

static bool read_copy(char *start, size_t bytes, uint64_t copy, struct framed *framed)
{
    struct frame_word unpacked = unpack(copy ^ key_of_copy(start));
    size_t front = unpacked.align_bytes > FRAME_FRONT_BYTES ? unpacked.align_bytes : FRAME_FRONT_BYTES;
    if (unpacked.state != 0 || front > bytes) return false;
    unpacked.state = FRAME_LIVE;
    *framed = (struct framed){start, bytes, start + front, unpacked};
    return plausible(framed);
}

HAK_UNWATCHED bool frame_read_copy(const struct lookup *at, struct framed *framed)
{
    return read_copy(at->start, at->bytes, *copy_of(at->start, at->bytes), framed);
}

bool frame_peek(char *start, size_t bytes, struct framed *framed)
{
    bool readable;
    uint64_t copy = os_peek_word(copy_of(start, bytes), &readable);
    if (!readable || !read_copy(start, bytes, copy, framed)) return false;
    struct frame_word word = unpack(os_peek_word(&front_of(framed->user)->word, &readable));
    if (word.state == FRAME_FREED) framed->word.state = FRAME_FREED;
    return true;
}

/* Read by this type and not by memcpy, since a sanitizer may watch memcpy in any function. */
typedef uint64_t __attribute__((may_alias, aligned(1))) eight_anywhere;
typedef uint64_t sixteen __attribute__((vector_size(16)));
/* In two steps: in one, gcc takes the vector's own alignment. */
typedef sixteen sixteen_anywhere __attribute__((may_alias, aligned(1)));

/* Whether 64 bytes are all the pattern. */
HAK_UNWATCHED_INLINE bool is_64_of(const char *start, uint64_t pattern)
{
    const sixteen_anywhere *words = (const sixteen_anywhere *)(const void *)start;
    const sixteen_anywhere wanted = {pattern, pattern};
    sixteen_anywhere other = (words[0] ^ wanted) | (words[1] ^ wanted) | (words[2] ^ wanted) | (words[3] ^ wanted);
    return (other[0] | other[1]) == 0;
}

HAK_UNWATCHED size_t frame_first_other(const char *start, size_t size, unsigned char byte)
{
    size_t at = 0;
    const uint64_t pattern = 0x0101010101010101 * (uint64_t)byte;
    while (size - at >= 64 && is_64_of(start + at, pattern)) at += 64;
    while (size - at >= sizeof pattern && *(const eight_anywhere *)(const void *)(start + at) == pattern)
        at += sizeof pattern;
    while (at < size && (unsigned char)start[at] == byte) at++;
    return at;
}

/* The index of the first of 8 bytes that differs; 8 if none does. */
static size_t first_different(uint64_t is, uint64_t should_be)
{
    return is == should_be ? sizeof is : (size_t)__builtin_ctzll(is ^ should_be) / 8;
}

HAK_UNWATCHED bool frame_changed_before(const struct framed *framed, ptrdiff_t *offset)
{
    const char *fill = fill_start(framed);
    size_t bytes = fill_bytes(framed), at = frame_first_other(fill, bytes, FRAME_FILL);
    if (at == bytes) {
        uint64_t word = pack(&framed->word);
        const struct front *front = front_of(framed->user);
        uint64_t found = atomic_load_explicit(&front->word, memory_order_relaxed);
        at = first_different(found, word);
        if (at == sizeof word) at += first_different(front->check, check_of(word, framed->user));
        if (at == sizeof *front) return false;
        fill = (const char *)front;
    }
    *offset = fill + at - framed->user;
    return true;
}

HAK_UNWATCHED bool frame_changed_after(const struct framed *framed, ptrdiff_t *offset)
{
    const char *canary = framed->user + framed->word.size_bytes;
    size_t bytes = canary_bytes(framed), at = frame_first_other(canary, bytes, FRAME_FILL);
    if (at == bytes) {
        uint64_t *copy = copy_of(framed->start, framed->bytes);
        at = first_different(*copy, without_state(pack(&framed->word)) ^ key_of_copy(framed->start));
        if (at == sizeof *copy) return false;
        canary = (const char *)copy;
    }
    *offset = canary + at - framed->user;
    return true;
}

static HAK_UNWATCHED uint64_t count_other(const char *start, size_t size, unsigned char byte)
{
    uint64_t count = 0;
    for (size_t at = 0; at < size; at++) count += (unsigned char)start[at] != byte;
    return count;
}

HAK_UNWATCHED uint64_t frame_changed_count(const struct framed *framed, ptrdiff_t offset, bool is_freed)
{
    const char *at = framed->user + offset, *end = framed->user + framed->word.size_bytes;
    if (at < framed->user)
        return at < fill_start(framed) + fill_bytes(framed)
                   ? count_other(fill_start(framed), fill_bytes(framed), FRAME_FILL)
                   : 0;
    if (at < end) return is_freed ? count_other(framed->user, framed->word.size_bytes, FRAME_JUNK) : 0;
    return at < end + canary_bytes(framed) ? count_other(end, canary_bytes(framed), FRAME_FILL) : 0;
}

HAK_UNWATCHED bool frame_state_change(const struct framed *framed, enum frame_state from, enum frame_state to)
{
    struct frame_word word = framed->word;
    word.state = from;
    uint64_t expected = pack(&word);
    word.state = to;
    return atomic_compare_exchange_strong_explicit(&front_of(framed->user)->word, &expected, pack(&word),
                                                   memory_order_relaxed, memory_order_relaxed);
}
