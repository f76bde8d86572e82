/* pages.c: pages, kept runs, the index of superslabs and the page map. */
#include "order/inside/scenarios.h"

#include "cache/thread.h"
#include "os/meta.h"
#include "superslab/index.h"
#include "superslab/kept.h"
#include "superslab/pagemap.h"
#include "superslab/pool.h"

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
    bool zero = true, contended = false;
    const struct page_need one = {.pages = 1, .align_pages = 1};
    if (thread == 0) page_give();
    else if (superslab_claim(full, &one, &zero, &contended) >= 0) page_use();
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

void scenario_kept_begin(void)
{
    make_run();
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
    if (thread == 0) index_raise_run(full, superslab_free(full, 3, 1, true), 3, 1);
    else index_lower(full);
}

const char *scenario_index_law(void)
{
    return index_find(index_byte(1), 1, 0) != full->index ? "no search finds a free page" : NULL;
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

void scenario_descriptor_begin(void)
{
    scenario_huge_begin();
}

void scenario_descriptor(unsigned thread)
{
    if (thread == 0) {
        described.bytes = 1;
        pagemap_descriptor_set(place, &described);
    } else if (pagemap_descriptor(place) == &described && described.bytes != 1) {
        order_fail("a superslab is found half made");
    }
}
SCENARIO_LAW_NONE(descriptor)
