/* frame.c: see frame.h. */
#include "debug/frame.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "debug/explain.h"
#include "debug/frame_layout.h"
#include "debug/operators.h"
#include "debug/quarantine.h"
#include "debug/bad_pointer.h"
#include "debug/trace.h"
#include "heap/heap.h"
#include "heap/own.h"
#include "os/os.h"
#include "os/sanitizer.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"

enum { DETAIL_BYTES = 96 }; /* holds the longest detail built below */

bool frames_on(void)
{
    return failfast_level() >= LEVEL_FRAMES;
}

/* Set while the thread is in a call that makes or changes a frame. A handler of a signal may come at any instruction. */
static HAK_TLS bool is_inside;

bool frame_is_changing(void)
{
    return HAK_MINE(is_inside);
}

/* Returns what `leave` takes: true if the call is a handler's, within another call. */
static bool enter(void)
{
    const bool before = HAK_MINE(is_inside);
    HAK_MINE(is_inside) = true;
    atomic_signal_fence(memory_order_seq_cst);
    return before;
}

static void leave(bool before)
{
    atomic_signal_fence(memory_order_seq_cst);
    HAK_MINE(is_inside) = before;
}

/* --- allocation ----------------------------------------------------------------------------------------- */

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

static size_t front_bytes(size_t align_bytes)
{
    return align_bytes > FRAME_FRONT_BYTES ? align_bytes : FRAME_FRONT_BYTES;
}

/* The size of the heap's block for a framed one. False if the sum wraps. */
static bool whole_bytes(size_t front, size_t size_bytes, size_t *whole)
{
    return !__builtin_add_overflow(front, size_bytes, whole) &&
           !__builtin_add_overflow(*whole, (size_t)FRAME_REAR_BYTES, whole);
}

bool frame_size_fits(size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (!__builtin_mul_overflow(count, size_bytes, &total_bytes) && total_bytes <= PTRDIFF_MAX) return true;
    if (failfast_level() >= LEVEL_TRACES)
        failfast_refused(FAILFAST_size_overflow, (const void *)(count == 1 ? size_bytes : count),
                         "the address above is the size, or the count of the array");
    errno = ENOMEM;
    return false;
}

static char *obtain(struct hak_heap *heap, size_t front, size_t whole, bool zero)
{
    if (heap != NULL && zero && front == FRAME_FRONT_BYTES) return own_calloc(heap, 1, whole);
    if (heap != NULL) return own_alloc(heap, front, whole, false);
    return zero && front == FRAME_FRONT_BYTES ? heap_calloc(1, whole) : heap_alloc_aligned(front, whole);
}

static void *frame_put(char *start, size_t front, struct frame_word word)
{
    const struct framed framed = {start, heap_usable_size(start), start + front, word};
    frame_write(&framed);
    return framed.user;
}

/* Fills what a block has from one byte on with the byte that the user chose. MemorySanitizer would take that for the
 * program's writing. */
static void fill_fresh(char *user, size_t from, size_t size_bytes)
{
    int fill = failfast_fill();
    if (HAK_UNLIKELY(fill >= 0) && !MSAN && from < size_bytes) memset(user + from, fill, size_bytes - from);
}

/* As frame_put, for a resized block. If it grew, a part that was its frame is the program's now, and not
 * initialised. */
static void *frame_put_resized(char *start, size_t front, struct frame_word word, size_t old_bytes)
{
    char *user = frame_put(start, front, word);
    trace_allocated(user, word.size_bytes);
    fill_fresh(user, old_bytes, word.size_bytes);
    if (MSAN && word.size_bytes > old_bytes) sanitizer_fresh(user + old_bytes, word.size_bytes - old_bytes);
    return user;
}

static void *alloc_in(struct hak_heap *heap, enum frame_family family, size_t align_bytes, size_t size_bytes, bool zero)
{
    size_t whole, front = front_bytes(align_bytes);
    if (!frame_size_fits(1, size_bytes)) return NULL;
    if (!whole_bytes(front, size_bytes, &whole)) return no_memory();
    int saved = errno;
    char *start = obtain(heap, front, whole, zero);
    if (start == NULL && quarantine_empty()) {
        start = obtain(heap, front, whole, zero);
        if (start != NULL) errno = saved;
    }
    if (start == NULL) return NULL;
    explain_start();
    char *user = frame_put(start, front, (struct frame_word){size_bytes, align_bytes, family, FRAME_LIVE});
    if (zero && front != FRAME_FRONT_BYTES) memset(user, 0, size_bytes);
    if (!zero) fill_fresh(user, 0, size_bytes);
    trace_allocated(user, size_bytes);
    return user;
}

static void *alloc_marked(struct hak_heap *heap, enum frame_family family, size_t align_bytes, size_t size_bytes,
                          bool zero)
{
    const bool before = enter();
    void *user = alloc_in(heap, family, align_bytes, size_bytes, zero);
    leave(before);
    return user;
}

void *frame_alloc(enum frame_family family, size_t align_bytes, size_t size_bytes, bool zero)
{
    return alloc_marked(NULL, family, align_bytes, size_bytes, zero);
}

void *frame_alloc_in(struct hak_heap *heap, size_t align_bytes, size_t size_bytes, bool zero)
{
    return alloc_marked(heap, FAMILY_MALLOC, align_bytes, size_bytes, zero);
}

/* --- checks ----------------------------------------------------------------------------------------------- */

HAK_COLD bool frame_refuse_bytes(enum failfast_kind kind, const struct framed *framed, ptrdiff_t offset, uint64_t count)
{
    char words[DETAIL_BYTES];
    text_string(words, sizeof words, "first changed byte: offset %ld of %zu", offset, framed->word.size_bytes);
    return failfast_refused_bytes(kind, framed->user, words, (struct failfast_bytes){framed->user + offset, count});
}

bool frame_refuse_changed(enum failfast_kind kind, const struct framed *framed, ptrdiff_t offset)
{
    return frame_refuse_bytes(kind, framed, offset, frame_changed_count(framed, offset, false));
}

/* Reports a pointer into a live block of the heap that has no intact frame before it. */
static HAK_COLD bool refuse_frameless(const struct lookup *at, const void *pointer)
{
    struct framed framed;
    ptrdiff_t offset;
    if (frame_read_copy(at, &framed) && framed.user == pointer) {
        if (frame_changed_before(&framed, &offset)) return frame_refuse_changed(FAILFAST_write_before, &framed, offset);
    } else if (pointer == at->start + FRAME_FRONT_BYTES) { /* both ends of the frame are overwritten */
        return failfast_refused_bytes(FAILFAST_write_before, pointer, "and the block's end is overwritten too",
                                      (struct failfast_bytes){.first = at->start});
    }
    return failfast_refused(FAILFAST_interior_pointer, pointer, NULL);
}

/* Whether a place for a small block has never been one. Each block that was handed out has had a frame, whose copy at its
 * end is hardly ever 0 and stays when the block is free, until its memory goes back to the system. */
static HAK_COLD HAK_UNWATCHED bool was_never_out(const struct lookup *at)
{
    return at->kind == RECORD_KIND_slab && !os_has_purged() &&
           *(const uint64_t *)(const void *)(at->start + at->bytes - sizeof(uint64_t)) == 0;
}

/* Whether a live block with an intact frame starts at pointer; reports it if not. `freed` is the kind to report for a
 * block that has been freed. */
static bool check(const void *pointer, enum failfast_kind freed, struct lookup *at, struct framed *framed)
{
    *at = heap_lookup(pointer);
    if (at->kind == RECORD_KIND_none || at->kind == RECORD_KIND_free) return bad_pointer_refused(pointer, freed);
    if ((uintptr_t)pointer % GRANULE_BYTES != 0) return failfast_refused(FAILFAST_misaligned_pointer, pointer, NULL);
    if (at->start == NULL)
        return failfast_refused(FAILFAST_never_returned, pointer, "in a slab, where no block of it can be");
    if (!at->live && was_never_out(at)) return failfast_refused(FAILFAST_never_returned, pointer, NULL);
    if (!at->live) return failfast_refused(freed, pointer, NULL);
    if (!frame_read(at, pointer, framed)) return refuse_frameless(at, pointer);
    if (framed->word.state == FRAME_FREED) return failfast_refused(freed, pointer, "it waits in the quarantine");
    ptrdiff_t offset;
    if (frame_changed_before(framed, &offset)) return frame_refuse_changed(FAILFAST_write_before, framed, offset);
    if (frame_changed_after(framed, &offset)) return frame_refuse_changed(FAILFAST_write_after, framed, offset);
    return true;
}

/* --- free --------------------------------------------------------------------------------------------------- */

static const char *const family_names[] = {"malloc", "new", "new[]"};

static HAK_COLD bool refuse_family(const struct framed *framed, const char *by)
{
    char words[DETAIL_BYTES];
    text_string(words, sizeof words, "allocated by %s, and now %s", family_names[framed->word.family], by);
    return failfast_refused(FAILFAST_mismatched_delete, framed->user, words);
}

static const char *number_or_none(char number[24], size_t value)
{
    return value == 0 ? "none" : text_string(number, 24, "%zu", value);
}

static HAK_COLD bool refuse_number(enum failfast_kind kind, const struct framed *framed, size_t is, size_t said)
{
    char words[DETAIL_BYTES], numbers[2][24];
    text_string(words, sizeof words, "allocated with %s, freed with %s", number_or_none(numbers[0], is),
                number_or_none(numbers[1], said));
    return failfast_refused(kind, framed->user, words);
}

/* Whether a module with operators of its own may have allocated or freed the block. */
static HAK_COLD bool may_be_bound_elsewhere(enum frame_family by, enum frame_family with)
{
    /* Such a module's new calls our malloc, and its new[] may call our new; likewise its delete. */
    bool is_new = by == FAMILY_MALLOC || with == FAMILY_NEW_ARRAY;
    return operators_elsewhere(is_new ? OPERATORS_NEW : OPERATORS_DELETE);
}

static bool check_said(const struct framed *framed, const struct frame_said *said)
{
    static const char *const frees[] = {"free", "delete", "delete[]"};
    const struct frame_word *word = &framed->word;
    if (said->family != word->family) /* size and alignment are not checked then: they are another new's */
        return may_be_bound_elsewhere(word->family, said->family) || refuse_family(framed, frees[said->family]);
    /* free takes any block; delete without an alignment only one of new without it. */
    bool is_plain_delete = said->family != FAMILY_MALLOC && !said->has_align && word->align_bytes != 0 &&
                           !operators_elsewhere(OPERATORS_DELETE);
    if ((said->has_align || is_plain_delete) && said->align_bytes != word->align_bytes)
        return refuse_number(FAILFAST_wrong_alignment, framed, word->align_bytes, said->align_bytes);
    if (said->has_size && said->size_bytes != word->size_bytes)
        return refuse_number(said->has_align ? FAILFAST_wrong_aligned_size : FAILFAST_wrong_size, framed,
                             word->size_bytes, said->size_bytes);
    return true;
}

static void release(const struct framed *framed, enum failfast_kind freed)
{
    if (!frame_state_change(framed, FRAME_LIVE, FRAME_FREED)) {
        /* unreached: by chance: two threads free a block between two instructions */
        failfast_refused(freed, framed->user, "by two threads at one time");
        return;
    }
    trace_freed(framed->user);
    quarantine_put(framed);
}

void frame_free(void *pointer, struct frame_said said)
{
    if (pointer == NULL) return;
    struct lookup at;
    struct framed framed;
    const char *call = failfast_call_set("free");
    const bool before = enter();
    if (check(pointer, FAILFAST_double_free, &at, &framed) && check_said(&framed, &said))
        release(&framed, FAILFAST_double_free);
    leave(before);
    failfast_call_set(call);
}

size_t frame_usable_size(const void *pointer)
{
    struct lookup at = heap_lookup(pointer);
    struct framed framed;
    if (at.kind == RECORD_KIND_none || at.kind == RECORD_KIND_free) return 0; /* NULL, or not ours */
    const char *call = failfast_call_set("malloc_usable_size");
    size_t size_bytes = check(pointer, FAILFAST_double_free, &at, &framed) ? framed.word.size_bytes : 0;
    failfast_call_set(call);
    return size_bytes;
}

/* --- realloc ---------------------------------------------------------------------------------------------- */

static void *realloc_moved(struct hak_heap *heap, const struct framed *framed, size_t size_bytes)
{
    int saved = errno;
    void *moved = alloc_in(heap, FAMILY_MALLOC, 0, size_bytes, false);
    size_t old_bytes = framed->word.size_bytes;
    if (moved != NULL) {
        memcpy(moved, framed->user, old_bytes < size_bytes ? old_bytes : size_bytes);
        release(framed, FAILFAST_realloc_freed);
        return moved;
    }
    if (size_bytes > old_bytes || own_of(framed->start) != heap) return NULL;
    errno = saved; /* the old block is too large, but it will do */
    struct framed shorter = *framed;
    shorter.word.size_bytes = size_bytes;
    frame_write(&shorter);
    trace_allocated(framed->user, size_bytes);
    return framed->user;
}

/* heap: where the block shall be; NULL: where it is. */
static void *realloc_checked(struct hak_heap *heap, void *pointer, size_t size_bytes)
{
    struct lookup at;
    struct framed framed;
    if (!check(pointer, FAILFAST_realloc_freed, &at, &framed)) return NULL;
    if (framed.word.family != FAMILY_MALLOC) {
        refuse_family(&framed, "realloc");
        return NULL;
    }
    if (size_bytes == 0) {
        release(&framed, FAILFAST_realloc_freed);
        return NULL;
    }
    size_t whole, front = (size_t)(framed.user - framed.start);
    struct hak_heap *of_block = own_of(framed.start);
    if (heap == NULL) heap = of_block;
    if (!frame_size_fits(1, size_bytes)) return NULL;
    if (!whole_bytes(front, size_bytes, &whole)) return no_memory();
    struct frame_word word = framed.word;
    word.size_bytes = size_bytes;
    if (heap != of_block) return realloc_moved(heap, &framed, size_bytes);
    if (at.kind != RECORD_KIND_slab && whole > SMALL_BYTES_MAX) { /* the heap may resize it without a copy */
        int saved = errno;
        char *start = heap_realloc(framed.start, whole);
        if (start == NULL && quarantine_empty()) { /* as in alloc_in */
            start = heap_realloc(framed.start, whole);
            if (start != NULL) errno = saved;
        }
        if (start == NULL) return NULL;
        if (start != framed.start) trace_freed(framed.user);
        return frame_put_resized(start, front, word, framed.word.size_bytes);
    }
    /* Borrowed and aligned blocks may be more than twice as long as they need to be. */
    const bool wastes = size_bytes < framed.word.size_bytes && whole < framed.bytes / 2;
    if (whole <= framed.bytes && !wastes) return frame_put_resized(framed.start, front, word, framed.word.size_bytes);
    return realloc_moved(heap, &framed, size_bytes);
}

void *frame_realloc(void *pointer, size_t size_bytes)
{
    return frame_realloc_in(NULL, pointer, size_bytes);
}

void *frame_realloc_in(struct hak_heap *heap, void *pointer, size_t size_bytes)
{
    if (pointer == NULL) return alloc_marked(heap, FAMILY_MALLOC, 0, size_bytes, false);
    const char *call = failfast_call_set("realloc");
    const bool before = enter();
    void *moved = realloc_checked(heap, pointer, size_bytes);
    leave(before);
    failfast_call_set(call);
    return moved;
}
