/* heaps.c: owners, what other threads free, heaps of the program's own, locks, and visits. */
#include "order/inside/scenarios.h"

#include <stdlib.h>

#include "cache/tcache.h"
#include "cache/thread.h"
#include "cache/visit.h"
#include "crash/crash_writer.h"
#include "hakmem/hakmem.h"
#include "heap/own_inside.h"
#include "os/lock.h"
#include "os/meta.h"
#include "slab/remote.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "superslab/pagemap.h"

/* --- owners ------------------------------------------------------------------------------------------- */

enum { TABLE_FIRST = 512 }; /* the cells of the first table: owner.c */
static struct heap *heap, *another;
static struct block *blocks[2];

static struct heap *make_heap(void)
{
    struct heap *made = meta_alloc(sizeof *made);
    if (made == NULL) abort();
    return made;
}

static void make_owner(void)
{
    thread_process_start();
    heap = make_heap();
    owner_register(&heap->owner);
}

void scenario_owner_table_begin(void)
{
    make_owner();
    while (owner_count() < TABLE_FIRST - 1) owner_register(&make_heap()->owner);
    another = make_heap();
}

void scenario_owner_table(unsigned thread)
{
    if (thread == 0) {
        another->owner.used_bytes_peak = 5;
        owner_register(&another->owner);
        return;
    }
    const uint32_t count = owner_count();
    struct owner *last = owner_with_id(count);
    if (last == NULL || last->id != count) order_fail("an owner that is counted is not in the table");
    else if (count == TABLE_FIRST && last->used_bytes_peak != 5) order_fail("an owner is found half made");
}
SCENARIO_LAW_NONE(owner_table)

static void make_blocks(void)
{
    make_owner();
    struct slab *slab = slab_make(&heap->owner, sizeclass_of(1024));
    blocks[0] = slab_take(slab);
    blocks[1] = blocks[0]->next;
}

void scenario_orphan_begin(void)
{
    make_blocks();
}

void scenario_orphan(unsigned thread)
{
    if (thread == 0) remote_abandon(&heap->owner);
    else if (thread <= 2) remote_post_one(slab_of(blocks[thread - 1]), blocks[thread - 1]);
}

const char *scenario_orphan_law(void)
{
    return owner_is_orphan(&heap->owner) && remote_is_pending(&heap->owner) ? "an orphan's queue has a slab" : NULL;
}

void scenario_adopt_begin(void)
{
    make_owner();
}

static void leave(void)
{
    heap->owner.used_bytes_peak = 77;
    owner_abandon(&heap->owner);
}

static void take_up(bool is_taken)
{
    if (is_taken && heap->owner.used_bytes_peak++ != 77) order_fail("an adopted owner is not as it was left");
}

void scenario_adopt(unsigned thread)
{
    if (thread == 0) leave();
    else take_up(owner_adopt() != NULL);
}
SCENARIO_LAW_NONE(adopt)

void scenario_adopt_this_begin(void)
{
    make_owner();
}

void scenario_adopt_this(unsigned thread)
{
    if (thread == 0) leave();
    else take_up(owner_adopt_this(&heap->owner));
}
SCENARIO_LAW_NONE(adopt_this)

void scenario_word_begin(void)
{
    make_blocks();
}

/* A thread frees two blocks of a slab, while its owner drains it. */
void scenario_word(unsigned thread)
{
    if (thread == 0) {
        remote_drain(&heap->owner);
        remote_drain(&heap->owner);
        return;
    }
    for (int i = 0; thread == 1 && i < 2; i++) {
        blocks[i]->next = NULL;
        remote_post_one(slab_of(blocks[i]), blocks[i]);
    }
}
SCENARIO_LAW_NONE(word)

/* --- heaps of the program's own ----------------------------------------------------------------------- */

static struct hak_heap *own;
static char *own_blocks[2];

void scenario_own_post_begin(void)
{
    own = hak_heap_new();
    for (int i = 0; i < 2; i++) own_blocks[i] = hak_heap_malloc(own, 64);
}

void scenario_own_post(unsigned thread)
{
    if (thread == 0) {
        own_lock(own);
        own_unlock(own);
    } else if (thread <= 2) {
        *own_blocks[thread - 1] = 1;
        hak_free(own_blocks[thread - 1]);
    }
}

const char *scenario_own_post_law(void)
{
    return atomic_load(&own->posted) != NULL ? "a block stays posted while nobody has the heap" : NULL;
}

void scenario_own_list_begin(void)
{
    thread_process_start();
}

void scenario_own_list(unsigned thread)
{
    if (thread == 0) {
        hak_heap_new();
        return;
    }
    for (const struct hak_heap *each = own_first(); each != NULL; each = each->next)
        if (each->owner.tag != CLASS_OWN) order_fail("a heap is found half made");
}
SCENARIO_LAW_NONE(own_list)

/* --- locks -------------------------------------------------------------------------------------------- */

static unsigned counted;
static struct lock_word word;

SCENARIO_BEGIN_NONE(lock)

void scenario_lock(unsigned thread)
{
    (void)thread;
    lock_acquire(LOCK_POOL);
    counted++;
    lock_release(LOCK_POOL);
}
SCENARIO_LAW_NONE(lock)

SCENARIO_BEGIN_NONE(lock_word)

void scenario_lock_word(unsigned thread)
{
    (void)thread;
    lock_word_acquire(&word, LOCK_OWN);
    counted++;
    lock_word_release(&word, LOCK_OWN);
}
SCENARIO_LAW_NONE(lock_word)

SCENARIO_BEGIN_NONE(begin)

void scenario_begin(unsigned thread)
{
    int here = (int)thread;
    thread_process_start();
    if (pagemap_tag_checked(&here) != 0) order_fail("a stack has a tag");
}
SCENARIO_LAW_NONE(begin)

/* --- visits ------------------------------------------------------------------------------------------- */

void scenario_visit_begin(void)
{
    hak_free(hak_malloc(64));
}

void scenario_visit(unsigned thread)
{
    if (thread == 0) {
        visit_all_caches();
        return;
    }
    void *first = hak_malloc(3000), *second = hak_malloc(3000);
    hak_free(first);
    tcache_flush(tcache_self());
    hak_free(second);
}
SCENARIO_LAW_NONE(visit)

static unsigned watched;

static void watch(bool begins)
{
    if (begins && watched != 11) order_fail("a watch is called before its data is there");
}

void scenario_watch_begin(void)
{
    hak_free(hak_malloc(1));
}

void scenario_watch(unsigned thread)
{
    if (thread == 0) {
        watched = 11;
        thread_watch(watch);
    } else {
        hak_free(hak_malloc(1));
    }
}
SCENARIO_LAW_NONE(watch)

SCENARIO_BEGIN_NONE(crash)

void scenario_crash(unsigned thread)
{
    if (!crash_writer_take(thread + 1)) return;
    counted++;
    crash_writer_release(thread + 1);
}
SCENARIO_LAW_NONE(crash)
