/* sweep.c: see sweep.h. */
#include "debug/exit/sweep.h"

#include <sys/stat.h>

#include "debug/frame.h"
#include "debug/frame_layout.h"
#include "debug/exit/leaks.h"
#include "debug/lookup.h"
#include "os/call.h"
#include "os/os.h"
#include "report/settings.h"
#include "slab/owner.h"
#include "slab/slab.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

/* Finds the block by either end of its frame. False: it has none, or both ends are overwritten, or it is freed. */
static bool find(const struct lookup *at, struct framed *framed)
{
    struct framed front;
    if (!frame_read_copy(at, framed))
        return frame_read(at, at->start + FRAME_FRONT_BYTES, framed) && framed->word.state == FRAME_LIVE;
    return !frame_read(at, framed->user, &front) || front.word.state == FRAME_LIVE;
}

bool sweep_find(char *start, struct framed *framed)
{
    struct lookup at = heap_lookup(start);
    return at.start == start && at.live && find(&at, framed);
}

static void check(char *start, void *unused)
{
    (void)unused;
    struct framed framed;
    ptrdiff_t offset;
    if (!sweep_find(start, &framed)) return;
    if (frame_changed_before(&framed, &offset)) frame_refuse_changed(FAILFAST_write_before, &framed, offset);
    else if (frame_changed_after(&framed, &offset)) frame_refuse_changed(FAILFAST_write_after, &framed, offset);
}

void sweep_block(char *start)
{
    if (frames_on()) check(start, NULL);
}

/* What to do with each block. */
struct each {
    sweep_visit_fn *visit;
    void *context;
};

static void visit_slab(struct slab *slab, const struct each *each)
{
    struct superslab *superslab = superslab_of(slab);
    char *page = superslab_page_start(superslab, slab);
    if (tag_is_run(pagemap_tag(page))) {
        each->visit(page, each->context);
        return;
    }
    uint32_t bytes = sizeclass_bytes(slab->class_index);
    char *start = slab_start(superslab, slab);
    for (uint32_t i = 0; i < slab->capacity; i++) each->visit(start + (size_t)i * bytes, each->context);
}

void sweep_discarded(struct slab *slab)
{
    if (frames_on()) visit_slab(slab, &(struct each){check, NULL});
}

static void visit_superslab(struct superslab *superslab, void *each)
{
    /* relaxed: there are no other threads. */
    uint64_t idle = atomic_load_explicit(&superslab->free_pages, memory_order_relaxed) |
                    atomic_load_explicit(&superslab->missing_pages, memory_order_relaxed);
    for (uint32_t page = 0; page < SUPERSLAB_PAGES;) {
        struct slab *slab = &superslab->slabs[page];
        uint32_t tag = pagemap_tag(superslab_page_start(superslab, slab));
        bool is_slab = (idle >> page & 1) == 0 && tag != 0 && tag != CLASS_OWN_DEAD;
        if (is_slab) visit_slab(slab, each);
        page += is_slab && slab->page_count > 0 ? slab->page_count : 1u;
    }
}

/* Huge blocks below an address, from the top down to the next superslab. */
static void visit_huge_below(uintptr_t at, const struct each *each)
{
    uintptr_t start;
    for (; at > 0 && pagemap_huge_below((const void *)(at - 1), &start) != NULL; at = start)
        if (tag_is_huge(pagemap_tag_checked((const void *)start))) each->visit((char *)start, each->context);
}

/* A superslab may lack its lower half: then the huge blocks below begin there. */
static void visit_huge_below_superslab(struct superslab *superslab, void *each)
{
    char *base = superslab_base(superslab);
    bool has_lower = pagemap_descriptor(base) == superslab;
    visit_huge_below((uintptr_t)base + (has_lower ? 0 : CELL_BYTES), each);
}

void sweep_each(sweep_visit_fn *visit, void *context)
{
    struct each each = {visit, context};
    pool_for_each(visit_superslab, &each);
    visit_huge_below((uintptr_t)1 << HAK_ADDRESS_BITS, &each);
    pool_for_each(visit_huge_below_superslab, &each);
}

static bool is_forked;

void sweep_after_fork(void)
{
    is_forked = true;
}

/* The links of the folder are one for each thread, and two. */
/* files: at exit of the debug-validation build */
static bool is_alone(void)
{
    struct stat status = {.st_nlink = 0};
    if (is_forked && owner_count() > 1) return false;
    return call_stat("/proc/self/task", &status) == 0 && status.st_nlink == 3;
}

void sweep_finish(void)
{
    static const char not_alone[] =
        "hakmem: HAKMEM_FAILFAST_LEAKS: other threads still run, or that is not known: leaks were not looked for\n";
    static const char within[] =
        "hakmem: HAKMEM_FAILFAST_LEAKS: a handler of a signal has called exit within malloc or free: leaks were not looked for\n";
    if (frame_is_changing()) {
        if (failfast_wants_leaks()) os_write_error(within, sizeof within - 1);
        return;
    }
    if (!is_alone()) {
        if (failfast_wants_leaks()) os_write_error(not_alone, sizeof not_alone - 1);
        return;
    }
    const char *call = failfast_call_set("exit");
    sweep_each(check, NULL);
    if (failfast_wants_leaks()) leaks_report();
    failfast_call_set(call);
}
