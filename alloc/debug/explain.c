/* explain.c: see explain.h. */
#include "debug/explain.h"

#include "base/hooks.h"
#include "debug/explain_next.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/quarantine.h"
#include "debug/trace.h"
#include "hakmem/record.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"

/* Adds "offset 16 of 100 bytes that begin at 0x...". */
static void add_offset(struct text *text, const void *address, const char *start, size_t bytes)
{
    text_print(text, "hakmem:   offset %ld of %zu bytes that begin at %p\n", (const char *)address - start, bytes,
               (const void *)start);
}

static void add_block(struct text *text, const struct lookup *at)
{
    text_print(text, "hakmem:   in %s", lookup_kind_names[at->kind]);
    if (at->start != NULL) text_print(text, " of %zu bytes at %p", at->bytes, (const void *)at->start);
    if (at->kind == RECORD_KIND_slab) {
        text_print(text, ", class %u", at->class_index);
        if (!at->is_own) text_print(text, ", heap %u", at->owner_id);
    }
    if (at->is_own) text_add(text, ", of a heap of the program's own");
    text_add(text, "\n");
}

/* Finds the program's block by the frame's copy at the end, since the front of the frame may be the part that was
 * overwritten; by the front of a block without an alignment, if the end is. */
static bool find_framed(const struct lookup *at, struct framed *framed)
{
    return at->live && failfast_level() >= LEVEL_FRAMES &&
           (frame_read_copy(at, framed) || frame_read(at, at->start + FRAME_FRONT_BYTES, framed));
}

struct state {
    const char *name;
    enum record_state state;
};

static struct state state_of(const struct lookup *at, const struct framed *by_copy)
{
    struct framed framed;
    if (at->start == NULL) return (struct state){"never handed out", RECORD_STATE_not_carved};
    if (!at->live) return (struct state){"free", RECORD_STATE_not_live};
    if (by_copy == NULL) return (struct state){"live", RECORD_STATE_live};
    if (quarantine_holds(at->start)) return (struct state){"freed, in the quarantine", RECORD_STATE_free};
    bool is_freed = frame_read(at, by_copy->user, &framed) && framed.word.state == FRAME_FREED;
    return is_freed ? (struct state){"freed", RECORD_STATE_free} : (struct state){"live", RECORD_STATE_live};
}

/* Completes the line "found by thread " with the thread and the place of its call. */
static void add_finder(struct text *text, const struct failfast_event *finder)
{
    trace_add_thread(text, finder->thread);
    text_add(text, finder->count == 0 ? "\n" : ", at\n");
    trace_add_places(text, finder);
}

/* For bytes before a small block that were overwritten: names the block below, which may have overflowed. Fills in where
 * that was allocated. */
static void add_below(struct text *text, const struct lookup *at, struct failfast_event *allocated)
{
    struct failfast_event freed;
    struct framed below;
    ptrdiff_t offset;
    if (at->kind != RECORD_KIND_slab || at->start == NULL || at->start == at->slab_start) return;
    struct lookup found = heap_lookup(at->start - 1);
    if (found.start == NULL || !find_framed(&found, &below)) return;
    const bool is_behind = frame_changed_after(&below, &offset);
    text_print(text, "hakmem:   the block below %s: %zu bytes that begin at %p\n",
               is_behind ? "is overwritten behind its end too" : "may have overflowed", below.word.size_bytes,
               (const void *)below.user);
    trace_find(below.user, allocated, &freed);
    trace_describe(text, below.user);
}

/* gate: a report of the debug-validation build, which ends the process */
static void explain(struct text *text, uint32_t kind, struct failfast_find *find)
{
    const void *address = find->address;
    struct lookup at = heap_lookup(address);
    struct framed framed;
    struct failfast_event finder, below = {.count = 0};
    const void *user = address;
    trace_here(&finder);
    if (kind == FAILFAST_leak) finder.count = 0; /* the end of the process: its calls say nothing of the block */
    add_finder(text, &finder);
    add_block(text, &at);
    find->kind = at.kind;
    if (at.kind != RECORD_KIND_none && at.kind != RECORD_KIND_free) {
        bool has_frame = find_framed(&at, &framed);
        struct state state = state_of(&at, has_frame ? &framed : NULL);
        text_print(text, "hakmem:   state: %s\n", state.name);
        if (has_frame) add_offset(text, address, framed.user, framed.word.size_bytes);
        if (has_frame) user = framed.user;
        find->state = state.state;
        find->class_index = at.class_index;
        find->block_start = has_frame ? framed.user : at.start;
        find->block_bytes = has_frame ? framed.word.size_bytes : at.bytes;
    }
    trace_find(user, &find->allocated, &find->freed);
    trace_describe(text, user);
    if (kind == FAILFAST_write_before) add_below(text, &at, &below);
    explain_next(text, kind, (const struct failfast_event *const[]){&finder, &find->allocated, &find->freed, &below},
                 4);
}

void explain_start(void)
{
    /* relaxed: a constant, and the data that it needs is static. */
    __atomic_store_n(&hooks.failfast_explain, explain, __ATOMIC_RELAXED);
}
