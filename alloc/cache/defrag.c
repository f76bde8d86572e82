/* defrag.c: see defrag.h. */
#include "cache/defrag.h"

#include <string.h>

#include "base/sizeclass.h"
#include "cache/tcache.h"
#include "os/meta.h"
#include "slab/slab.h"
#include "slab/take.h"
#include "superslab/pagemap.h"

enum {
    ASKED_MAX = 4096, /* after this number of questions the averages are counted again */
    TARGETS_MAX = 16, /* slabs that a move looks at */
};

/* Of a heap; the heap's thread alone uses it. */
struct defrag {
    uint32_t asked;
    struct slab_sums sums[CLASS_COUNT];
};

/* The slab of a block of this thread's heap; NULL: it is another kind of block, or another heap's. */
static struct slab *slab_of_own(const struct tcache *tcache, const void *pointer)
{
    if (VALIDATE || SANITIZED || tcache->heap == NULL) return NULL;
    uint32_t mixed_tag = pagemap_tag_checked(pointer) ^ tcache->tag;
    if (mixed_tag >> TAG_OWNER_SHIFT != 0 || mixed_tag == CLASS_EMPTY || mixed_tag >= CLASS_COUNT) return NULL;
    return slab_of(pointer);
}

/* The caller is busy. */
static struct defrag *averages(struct tcache *tcache)
{
    struct heap *heap = tcache->heap;
    if (heap->defrag == NULL) {
        heap->defrag = meta_alloc(sizeof *heap->defrag);
        if (heap->defrag == NULL) return NULL;
    }
    struct defrag *defrag = heap->defrag;
    if (defrag->asked-- != 0) return defrag;
    defrag->asked = ASKED_MAX;
    tcache_flush(tcache); /* what it keeps counts as used, and keeps slabs from becoming empty */
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        defrag->sums[class_index] = slab_sort(&heap->owner, class_index);
    return defrag;
}

static bool is_sparse(const struct defrag *defrag, const struct slab *slab)
{
    if (slab->full) return false;
    const struct slab_sums *sums = &defrag->sums[slab->class_index];
    uint64_t used_count = atomic_load_explicit(&slab->used_count, memory_order_relaxed);
    return used_count * sums->capacity < sums->used_count * slab->capacity;
}

bool defrag_hint(const void *pointer)
{
    struct tcache *tcache = tcache_self();
    struct slab *slab = slab_of_own(tcache, pointer);
    if (slab == NULL) return false;
    tcache_busy_begin(tcache);
    const struct defrag *defrag = averages(tcache);
    bool helps = defrag != NULL && is_sparse(defrag, slab);
    tcache_busy_end(tcache);
    return helps;
}

/* From the first slab of the class that is fuller than this one and has a free block. */
static struct block *take_fuller(struct owner *owner, const struct slab *than)
{
    uint32_t used_count = atomic_load_explicit(&than->used_count, memory_order_relaxed);
    struct slab *first = owner->slabs[than->class_index], *slab = first;
    for (int looked = 0; looked < TARGETS_MAX && slab != NULL; looked++) {
        if (slab != than && atomic_load_explicit(&slab->used_count, memory_order_relaxed) > used_count) {
            struct block *block = slab_take_one(slab);
            if (block != NULL) return block;
        }
        slab = slab->next;
        if (slab == first) break;
    }
    return NULL;
}

void *defrag_move(void *pointer)
{
    struct tcache *tcache = tcache_self();
    struct slab *slab = slab_of_own(tcache, pointer);
    if (slab == NULL) return NULL;
    struct block *moved = NULL;
    tcache_busy_begin(tcache);
    const struct defrag *defrag = averages(tcache);
    if (defrag != NULL && is_sparse(defrag, slab)) moved = take_fuller(slab->owner, slab);
    if (moved != NULL) {
        memcpy(moved, pointer, sizeclass_bytes(slab->class_index));
        slab_give_back(slab, pointer);
    }
    tcache_busy_end(tcache);
    return moved;
}
