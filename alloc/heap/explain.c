/* explain.c: see explain.h. */
#include "heap/explain.h"

#include "base/config.h"
#include "heap/frame_layout.h"
#include "heap/lookup.h"
#include "heap/quarantine.h"
#include "heap/trace.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"

static const char *const kind_names[] = {
    [LOOKUP_NONE] = "no memory of the heap",
    [LOOKUP_FREE_PAGE] = "a page that is free",
    [LOOKUP_SMALL] = "a small block",
    [LOOKUP_RUN] = "a page run",
    [LOOKUP_HUGE] = "a huge block",
};

/* "offset 16 of 100 bytes that begin at 0x..." */
static void add_offset(struct text *text, const void *address, const char *start, size_t bytes)
{
    text_add(text, "hakmem:   offset ");
    text_add_signed(text, (const char *)address - start);
    text_add(text, " of ");
    text_add_number(text, bytes);
    text_add(text, " bytes that begin at ");
    text_add_address(text, start);
    text_add(text, "\n");
}

static void add_block(struct text *text, const struct lookup *at)
{
    text_add(text, "hakmem:   in ");
    text_add(text, kind_names[at->kind]);
    if (at->start != NULL) {
        text_add(text, " of ");
        text_add_number(text, at->bytes);
        text_add(text, " bytes at ");
        text_add_address(text, at->start);
    }
    if (at->kind == LOOKUP_SMALL) {
        text_add(text, ", class ");
        text_add_number(text, at->class_index);
        text_add(text, ", heap ");
        text_add_number(text, at->owner_id);
    }
    text_add(text, "\n");
}

/* The program's block, by the frame's copy, since what stands before the block may be what was overwritten. */
static bool find_framed(const struct lookup *at, struct framed *framed)
{
    return at->live && failfast_level() >= LEVEL_FRAMES && frame_read_copy(at, framed);
}

static const char *state_of(const struct lookup *at, const struct framed *by_copy)
{
    struct framed framed;
    if (at->start == NULL) return "never handed out";
    if (!at->live) return "free";
    if (by_copy == NULL) return "live";
    if (quarantine_holds(at->start)) return "freed, in the quarantine";
    bool is_freed = frame_read(at, by_copy->user, &framed) && framed.word.state == FRAME_FREED;
    return is_freed ? "freed" : "live";
}

static const char *next_step(enum failfast_kind kind)
{
    if (kind == FAILFAST_law || kind == FAILFAST_heap_not_held) return "a debugger, at this thread\n";
    if (!trace_is_on())
        return "HAKMEM_FAILFAST_LEVEL=3 tells where the block was allocated and freed\n";
    return "addr2line -fe MODULE OFFSET, for each MODULE+OFFSET above\n";
}

static void explain(struct text *text, enum failfast_kind kind, const void *address)
{
    struct lookup at = heap_lookup(address);
    struct framed framed;
    const void *user = address;
    add_block(text, &at);
    if (at.kind >= LOOKUP_SMALL) {
        bool has_frame = find_framed(&at, &framed);
        text_add(text, "hakmem:   state: ");
        text_add(text, state_of(&at, has_frame ? &framed : NULL));
        text_add(text, "\n");
        if (has_frame) add_offset(text, address, framed.user, framed.word.size_bytes);
        if (has_frame) user = framed.user;
    }
    trace_describe(text, user);
    text_add(text, "hakmem:   next: ");
    text_add(text, next_step(kind));
}

void explain_start(void)
{
    /* relaxed: a constant, and what it needs is there before any thread is. */
    __atomic_store_n(&failfast_explain, explain, __ATOMIC_RELAXED);
}
