/* pages.c: pages, kept runs, the index of superslabs and the page map. */
#include "order/inside/scenarios.h"

#include "cache/thread.h"
#include "os/meta.h"
#include "superslab/index.h"
#include "superslab/kept.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"
#include "superslab/pool_make.h"

static struct superslab *full; /* all its pages are claimed */

/* Superslabs without a free page. The last one has the index `last`. */
static void make_full(uint32_t last)
{
    thread_process_start();
    do full = pool_claim(SUPERSLAB_PAGES, 1, true).superslab;
    while (full->index < last);
}

/* --- pages ------------------------------------------------------------------------------------------- */

void scenario_pages_begin(void)
{
    make_full(0);
}

static void page_give(void)
{
    full->slabs[3].class_index = 9;
    *(char *)superslab_page_start(full, &full->slabs[3]) = 1;
    superslab_free(full, 3, 1, true);
}

static void page_use(void)
{
    if (full->slabs[3].class_index != 9) order_fail("the descriptor of the page is an old one");
    *(char *)superslab_page_start(full, &full->slabs[3]) = 2;
    superslab_free(full, 3, 1, true);
}

void scenario_pages(unsigned thread)
{
    bool contended = false;
    const struct page_need one = {.pages = 1, .align_pages = 1};
    if (thread == 0) page_give();
    else if (superslab_claim(full, &one, &contended) >= 0) page_use();
}
SCENARIO_LAW_NONE(pages)

void scenario_pages_at_begin(void)
{
    make_full(0);
}

void scenario_pages_at(unsigned thread)
{
    if (thread == 0) page_give();
    else if (superslab_claim_at(full, 3, 1)) page_use();
}
SCENARIO_LAW_NONE(pages_at)

/* --- kept runs --------------------------------------------------------------------------------------- */

static struct slab *run;

static void make_run(void)
{
    make_full(0);
    run = &full->slabs[8];
    run->page_index = 8;
    run->page_count = 4;
}

/* A run was kept here before. */
void scenario_kept_begin(void)
{
    make_run();
    kept_put(0, run);
    kept_take(0, 4);
}

void scenario_kept(unsigned thread)
{
    if (thread == 0) kept_put(0, run);
    else kept_give_back();
}

const char *scenario_kept_law(void)
{
    const uint32_t pages = (uint32_t)(atomic_load(&kept_lanes[0].run) % sizeof(struct slab));
    return atomic_load(&kept_lanes[0].pages_max) < pages ? "a kept run is not counted, so nobody gives it back" : NULL;
}

void scenario_kept_take_begin(void)
{
    make_run();
}

void scenario_kept_take(unsigned thread)
{
    if (thread == 0) {
        run->capacity = 7;
        kept_put(0, run);
        return;
    }
    struct slab *taken = kept_take(0, 4);
    if (taken != NULL) taken->capacity++;
}
SCENARIO_LAW_NONE(kept_take)

/* --- the index ---------------------------------------------------------------------------------------- */

/* The words of the last superslab, and above it, say too much. */
static void say_too_much(uint64_t word)
{
    atomic_fetch_or(&chunk_of(full)->words[full->index % CHUNK_SUPERSLABS], word);
    atomic_fetch_or(&chunk_of(full)->groups[full->index % CHUNK_SUPERSLABS / INDEX_FAN], word);
}

void scenario_index_begin(void)
{
    make_full(INDEX_FAN);
    superslab_free(full, 3, 1, true);
    index_raise(full);
    superslab_claim_at(full, 3, 1);
}

void scenario_index(unsigned thread)
{
    if (thread == 1) index_lower(full);
    else index_raise_run(full, superslab_free(full, 3 + thread, 1, true), 3 + thread, 1);
}

const char *scenario_index_law(void)
{
    const bool is_free = atomic_load(&full->free_pages) != 0;
    return is_free && index_find(index_byte(1), 1, 0) != full->index ? "no search finds a free page" : NULL;
}

void scenario_search_begin(void)
{
    scenario_index_begin();
}

void scenario_search(unsigned thread)
{
    if (thread == 0) pool_free_kept(full, 3, 1, 0);
    else pool_claim(1, 1, false);
}

const char *scenario_search_law(void)
{
    return scenario_index_law();
}

void scenario_absent_begin(void)
{
    make_full(INDEX_FAN);
    superslab_free(full, 0, SUPERSLAB_PAGES, false);
    say_too_much(1ull << 8 * INDEX_ABSENT);
}

void scenario_absent(unsigned thread)
{
    if (thread == 0) pool_release(full);
    else index_lower(full);
}

const char *scenario_absent_law(void)
{
    return index_find(INDEX_ABSENT, 1, 0) != full->index ? "no search finds a descriptor that is not in use" : NULL;
}

/* What stays free of the new superslab is less than the old word says, and what is claimed of it is more. */
void scenario_renew_begin(void)
{
    scenario_reuse_begin();
    pool_release(full);
    say_too_much(0x1e1e1e1e1e1e);
}

void scenario_renew(unsigned thread)
{
    if (thread == 0) pool_claim(40, 1, false);
    else index_lower(full);
}

const char *scenario_renew_law(void)
{
    return scenario_index_law();
}

void scenario_fresh_begin(void)
{
    make_full(1);
}

void scenario_fresh(unsigned thread)
{
    (void)thread;
    pool_claim(1, 1, false);
}
SCENARIO_LAW_NONE(fresh)

/* The index says of a free superslab that it is absent, and not that it has pages, so that nobody looks at these. */
void scenario_reuse_begin(void)
{
    make_full(INDEX_FAN);
    superslab_free(full, 0, SUPERSLAB_PAGES, false);
    say_too_much(1ull << 8 * INDEX_ABSENT);
}

void scenario_reuse(unsigned thread)
{
    if (thread == 0) pool_release(full);
    else pool_claim(SUPERSLAB_PAGES, 1, true);
}

const char *scenario_reuse_law(void)
{
    const bool is_present = (atomic_load(&chunk_of(full)->present) >> full->index & 1) != 0;
    if (is_present != (superslab_base(full) != NULL)) return "a superslab in use has no address space";
    return scenario_index_law();
}

/* --- walks -------------------------------------------------------------------------------------------- */

void scenario_walk_begin(void)
{
    make_full(CHUNK_SUPERSLABS - 1);
}

static void look(struct superslab *superslab, void *context)
{
    (void)context;
    if (superslab->index > CHUNK_SUPERSLABS || superslab->marks == NULL)
        order_fail("a walk finds a superslab half made");
}

static bool look_on(struct superslab *superslab, void *context)
{
    look(superslab, context);
    return true;
}

void scenario_walk(unsigned thread)
{
    if (thread == 0) pool_claim(SUPERSLAB_PAGES, 1, true);
    else pool_for_each(look, NULL);
}
SCENARIO_LAW_NONE(walk)

void scenario_walk_below_begin(void)
{
    make_full(1);
}

void scenario_walk_below(unsigned thread)
{
    if (thread == 0) pool_claim(SUPERSLAB_PAGES, 1, true);
    else pool_for_each_below(POOL_TOP, look_on, NULL);
}
SCENARIO_LAW_NONE(walk_below)

/* --- the page map ------------------------------------------------------------------------------------- */

static struct {
    _Alignas(META_LINE_BYTES) size_t bytes;
} described;
static char *place;

void scenario_huge_begin(void)
{
    thread_process_start();
    place = pagemap_map(SUPERSLAB_BYTES, SUPERSLAB_BYTES);
}

void scenario_huge(unsigned thread)
{
    if (thread == 0) {
        described.bytes = SUPERSLAB_BYTES;
        pagemap_huge_enter(place, SUPERSLAB_BYTES, &described);
    } else if (pagemap_huge(place) == &described && described.bytes != SUPERSLAB_BYTES) {
        order_fail("a huge block is found half made");
    }
}
SCENARIO_LAW_NONE(huge)

static void describe(bool is_whole)
{
    described.bytes = 1;
    if (is_whole) pagemap_descriptor_set(place, &described);
    else pagemap_part_enter(place, &described);
}

static void look_up(void)
{
    if (pagemap_descriptor(place) == &described && described.bytes != 1) order_fail("a superslab is found half made");
}

void scenario_descriptor_begin(void)
{
    scenario_huge_begin();
}

void scenario_descriptor(unsigned thread)
{
    if (thread == 0) describe(true);
    else look_up();
}
SCENARIO_LAW_NONE(descriptor)

void scenario_part_begin(void)
{
    scenario_huge_begin();
}

void scenario_part(unsigned thread)
{
    if (thread == 0) describe(false);
    else look_up();
}
SCENARIO_LAW_NONE(part)
