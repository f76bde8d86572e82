/* remote.c: see remote.h. */
#include "slab/remote.h"

#include "base/sync_point.h"
#include "report/broken.h"
#include "slab/trim.h"
#include "slab/validate.h"

enum { REMOTE_COUNT_SHIFT = 48 };

static_assert(HAK_ADDRESS_BITS <= REMOTE_COUNT_SHIFT, "a block's address fits below the count");
static_assert(PAGE_BYTES / GRANULE_BYTES < 1 << 16, "the count of a slab's blocks fits above it");

static const uint64_t REMOTE_QUEUED = 1; /* bit 0 is free, since blocks start at multiples of 16 */
static const uint64_t REMOTE_ADDRESS = ((1ull << REMOTE_COUNT_SHIFT) - 1) & ~(uint64_t)15;

static struct block *word_head(uint64_t word)
{
    return (struct block *)(uintptr_t)(word & REMOTE_ADDRESS);
}

static uint32_t word_count(uint64_t word)
{
    return (uint32_t)(word >> REMOTE_COUNT_SHIFT);
}

static uint64_t word_make(const struct block *head, uint32_t count)
{
    return (uint64_t)count << REMOTE_COUNT_SHIFT | (uintptr_t)head | REMOTE_QUEUED;
}

/* --- any thread --------------------------------------------------------------------------------- */

static void pending_push(struct owner *owner, struct slab *slab)
{
    /* A guess: a load before the exchange would fetch the cache line once more. If it is wrong, the exchange has the line. */
    struct slab *head = NULL;
    do {
        slab->next_pending = head;
        sync_point("pending_push");
        /* release: publishes next_pending. Pairs with the acquire in pending_pop. seq_cst: orders the push
         * before the load of the orphan's bit, see owner_abandon. Relaxed on failure: head is stored, never followed
         * here. */
    } while (!atomic_compare_exchange_weak_explicit(&owner->pending, &head, slab, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

void remote_post(struct slab *slab, struct block *head, struct block *tail, uint32_t count)
{
    uint64_t word = 0; /* a guess, as in pending_push */
    link_set(&head->batch_tail, tail);
    do {
        link_set(&tail->next, word_head(word));
        sync_point("remote_post");
        /* release: publishes the links and this thread's last writes to the blocks. Pairs with the acquire in
         * remote_drain_some. acquire: the drain that cleared QUEUED has read next_pending, so this thread may write it now.
         * Pairs with the release in remote_drain_some. Relaxed on failure: the head is stored, not followed. */
    } while (!atomic_compare_exchange_weak_explicit(&slab->remote, &word, word_make(head, word_count(word) + count),
                                                    memory_order_acq_rel, memory_order_relaxed));
    if ((word & REMOTE_QUEUED) != 0) return; /* the slab is on the queue already, and no longer ours to touch */
    /* The slab cannot be released, nor its owner change, before it is on the queue. */
    struct owner *owner = slab->owner;
    pending_push(owner, slab);
    remote_drain_orphan(owner);
}

/* Sets a mark for a child that is forked meanwhile, which sees this thread's writes in their order. */
static void mark(bool *is, bool value)
{
    atomic_signal_fence(memory_order_acq_rel);
    *is = value;
    atomic_signal_fence(memory_order_acq_rel);
}

/* The slab of a stage's blocks. The descriptor of a slab of one page is that page's own, so it need not be read, which would
 * fetch its cache line before remote_post's exchange takes it. Such a slab has blocks of at most PAGE_BYTES / SLAB_BLOCKS_MIN. */
static struct slab *stage_slab(const struct stage *stage)
{
    if (stage->count_max < STAGE_BYTES_MAX / (PAGE_BYTES / SLAB_BLOCKS_MIN)) return slab_of(stage->head);
    struct superslab *superslab = (struct superslab *)pagemap_descriptor_of(stage->head);
    return &superslab->slabs[stage->page % SUPERSLAB_PAGES];
}

static void stage_post(struct staging *staging, struct stage *stage)
{
    if (stage->count == 0) return;
    uint32_t count = stage->count;
    struct slab *slab = stage_slab(stage);
    stage->count = 0;
    mark(&staging->posts, true);
    remote_post(slab, stage->head, stage->tail, count);
    mark(&staging->posts, false);
}

HAK_INLINE void stage_push(struct stage *stage, struct block *block)
{
    link_set(&block->next, stage->head);
    stage->head = block;
    /* The count is written last: a child that is forked here must not find it above the length of the list. */
    atomic_signal_fence(memory_order_release);
    stage->count++;
}

static HAK_NOINLINE void stage_post_full(struct staging *staging, struct stage *stage)
{
    stage_post(staging, stage);
}

/* Posts a stage that is held. */
static void stage_give_up(struct staging *staging, uint32_t index)
{
    stage_post(staging, &staging->stages[index]);
    staging->held[index / 64] &= ~(1ull << index % 64); /* last: a child that is forked before posts the stage */
    staging->held_count--;
}

/* Posts one of the stages that are held; there is one. */
static void stage_give_way(struct staging *staging)
{
    uint32_t word = staging->next / 64;
    uint64_t held = staging->held[word] & ~0ull << staging->next % 64;
    while (held == 0) held = staging->held[word = (word + 1) % (STAGES / 64)];
    const uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(held);
    stage_give_up(staging, index);
    staging->next = (index + 1) % STAGES;
}

/* How many stages are held with this one. */
HAK_INLINE uint64_t held_with(const struct staging *staging, uint32_t index)
{
    return staging->held_count + (~staging->held[index / 64] >> index % 64 & 1);
}

/* If heaps become more, the stages become fewer in small steps. */
static HAK_NOINLINE void stages_make_room(struct staging *staging, uint32_t index)
{
    enum { GIVE_WAY_MAX = 2 };
    const uint32_t most = sizeclass_clamp(STAGES_ALL_MAX / owner_count(), STAGES_MIN, STAGES);
    for (int i = 0; i < GIVE_WAY_MAX && held_with(staging, index) > most; i++) stage_give_way(staging);
}

/* The stage has no blocks, and is about to have one. */
HAK_INLINE void stage_hold(struct staging *staging, uint32_t index)
{
    if (HAK_UNLIKELY(held_with(staging, index) * owner_count() > STAGES_ALL_MAX)) stages_make_room(staging, index);
    staging->held_count = (uint32_t)held_with(staging, index);
    staging->held[index / 64] |= 1ull << index % 64;
}

/* A thread holds STAGES_MIN, so beside more heaps than can have as many full ones each takes fewer blocks. */
static uint32_t stage_blocks(uint32_t class_index)
{
    const uint32_t most = sizeclass_stage_blocks(class_index), heaps = owner_count();
    if (HAK_LIKELY(heaps <= STAGES_ALL_MAX / STAGES_MIN)) return most;
    return sizeclass_clamp(most * (STAGES_ALL_MAX / STAGES_MIN) / heaps, 1, most);
}

/* The first block of a page. What another page has staged here is posted. */
static HAK_NOINLINE void stage_begin(struct staging *staging, struct stage *stage, struct block *block,
                                     uint32_t class_index)
{
    stage_post(staging, stage);
    stage->page = (uintptr_t)block >> PAGE_SHIFT;
    stage->count_max = stage_blocks(class_index);
    stage->head = NULL;
    stage->tail = block;
    stage_hold(staging, (uint32_t)(stage - staging->stages));
    stage_push(stage, block);
    if (stage->count >= stage->count_max) stage_post(staging, stage);
}

/* Each remote free comes here. The rare cases are in functions of their own, so that this one saves no registers. */
void remote_stage(struct staging *staging, struct block *block, uint32_t class_index)
{
    uintptr_t page = (uintptr_t)block >> PAGE_SHIFT;
    struct stage *stage = &staging->stages[(page ^ page >> 6) % STAGES];
    if (HAK_UNLIKELY(stage->count == 0 || stage->page != page)) {
        stage_begin(staging, stage, block, class_index);
        return;
    }
    stage_push(stage, block);
    if (HAK_UNLIKELY(stage->count >= stage->count_max)) stage_post_full(staging, stage);
}

void remote_post_all(struct staging *staging)
{
    for (uint32_t word = 0; word < STAGES / 64; word++)
        while (staging->held[word] != 0)
            stage_give_up(staging, word * 64 + (uint32_t)__builtin_ctzll(staging->held[word]));
    staging->held_count = 0; /* a child that a handler forked within stage_give_up has one more or less */
}

static _Atomic(uint32_t) heapless_posts; /* threads in remote_post_one. Relaxed: only a forked child asks */

void remote_post_one(struct slab *slab, struct block *block)
{
    atomic_fetch_add_explicit(&heapless_posts, 1, memory_order_relaxed);
    remote_post(slab, block, block, 1);
    atomic_fetch_sub_explicit(&heapless_posts, 1, memory_order_relaxed);
}

/* --- the owner ----------------------------------------------------------------------------------- */

/* The last block of a list of batches with count blocks in all. It goes from batch to batch: another thread wrote these
 * blocks, so touching each one would cost a cache miss (28% of the time of a loop of remote frees, when all were
 * walked). */
static struct block *batches_tail(struct block *head, uint32_t count, uint32_t class_index)
{
    for (struct block *tail; count-- != 0; head = link_get(&tail->next)) {
        tail = link_get(&head->batch_tail);
        if (link_get(&tail->next) == NULL) return tail;
    }
    broken(BROKEN_batches, class_index, head);
}

/* Takes the slab that was queued last off the queue; NULL: there is none. Only who holds the owner takes slabs. So while a slab
 * is the head it stays queued, and its link does not change. */
static struct slab *pending_pop(struct owner *owner)
{
    sync_point("remote_drain");
    /* acquire, each time: pairs with pending_push, also of the slabs below. (In C11 no failure is stronger than success.) */
    struct slab *slab = atomic_load_explicit(&owner->pending, memory_order_acquire);
    /* A queued slab has QUEUED set, so this changes nothing, but takes the cache line for the exchange in remote_drain_some:
     * next_pending is on it, and a load would fetch it first. */
    if (slab != NULL) atomic_fetch_or_explicit(&slab->remote, REMOTE_QUEUED, memory_order_relaxed);
    while (slab != NULL && !atomic_compare_exchange_weak_explicit(&owner->pending, &slab, slab->next_pending,
                                                                  memory_order_acquire, memory_order_acquire))
        sync_point("pending_pop");
    return slab;
}

struct block *remote_drain_some(struct owner *owner, uint32_t class_wanted, uint32_t slabs_max)
{
    struct block *wanted = NULL;
    mark(&owner->is_draining, true);
    uint32_t left = slabs_max;
    for (struct slab *slab; left != 0 && (slab = pending_pop(owner)) != NULL; left--) {
        sync_point("remote_drain_slab");
        /* acquire and release: pair with the release and the acquire in remote_post. */
        uint64_t word = atomic_exchange_explicit(&slab->remote, 0, memory_order_acq_rel);
        /* Only a broken list leads here: a slab that was released and made again while it was queued can be on the
         * queue twice, which makes the queue cyclic. */
        if (HAK_UNLIKELY(word_count(word) == 0)) broken(BROKEN_pending, slab->class_index, slab);
        if (VALIDATE) validate_remote(slab, word_head(word), word_count(word));
        owner_count_event(owner, OWNER_EVENT_drains);
        if (wanted == NULL && slab->class_index == class_wanted) {
            wanted = word_head(word);
        } else {
            struct block *head = word_head(word), *tail = NULL;
            if (slab->free != NULL) tail = batches_tail(head, word_count(word), slab->class_index);
            slab_give_back_list(slab, head, tail, word_count(word));
        }
    }
    mark(&owner->is_draining, false);
    owner->owes_drain = left == 0 && remote_is_pending(owner);
    return wanted;
}

void remote_drain(struct owner *owner)
{
    remote_drain_some(owner, CLASS_EMPTY, UINT32_MAX);
}

void remote_abandon(struct owner *owner)
{
    do {
        remote_drain(owner);
    } while (!owner_abandon(owner));
}

bool remote_drain_orphan(struct owner *owner)
{
    if (!owner_adopt_this(owner)) return false;
    remote_drain(owner);
    if (!owner->keeps_empty) slab_trim_left(owner);
    else if (slab_trim_is_due(owner)) slab_trim_all(owner);
    remote_abandon(owner);
    return true;
}

uint32_t remote_count(const struct slab *slab)
{
    return word_count(atomic_load_explicit(&slab->remote, memory_order_relaxed));
}

bool remote_is_queued(const struct slab *slab)
{
    return (atomic_load_explicit(&slab->remote, memory_order_relaxed) & REMOTE_QUEUED) != 0;
}

/* --- fork ---------------------------------------------------------------------------------------- */

bool remote_was_queueing(struct owner *owner, struct staging *staging)
{
    if (!owner->is_draining && !staging->posts) return false;
    owner->is_draining = staging->posts = false;
    return true;
}

bool remote_was_heapless_posting(void)
{
    return atomic_exchange_explicit(&heapless_posts, 0, memory_order_relaxed) != 0;
}

void remote_forget_pending(struct owner *owner)
{
    if (remote_is_pending(owner)) atomic_store_explicit(&owner->pending, NULL, memory_order_relaxed);
}

static void stage_recount(struct stage *stage)
{
    if (stage->count == 0) return;
    const struct block *block = stage->head;
    for (uint32_t counted = 1; counted < stage->count && block != stage->tail; counted++)
        block = link_get(&block->next);
    if (block != stage->tail) stage->count++;
}

void remote_recount(struct staging *staging)
{
    uint32_t held_count = 0;
    for (uint32_t word = 0; word < STAGES / 64; word++) {
        for (uint64_t held = staging->held[word]; held != 0; held &= held - 1) {
            stage_recount(&staging->stages[word * 64 + (uint32_t)__builtin_ctzll(held)]);
            held_count++;
        }
    }
    if (staging->held_count != held_count) staging->held_count = held_count;
}

void remote_requeue(struct slab *slab)
{
    if ((atomic_load_explicit(&slab->remote, memory_order_relaxed) & REMOTE_QUEUED) != 0)
        pending_push(slab->owner, slab);
}
