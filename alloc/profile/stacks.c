/* stacks.c: see stacks.h. */
#include "profile/stacks.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cache/tcache.h"
#include "os/libc.h"
#include "os/lock.h"
#include "os/meta.h"
#include "os/unwind.h"

enum {
    OWN_FRAMES_MAX = 4, /* functions of this file, and the one whose caller begins the stack */
    LEARNED_BYTES_MAX = 16 << 20, /* beyond that nothing is learned */
    PART_BYTES = 64 << 10, /* of the memory for it */
    SAVED_BYTES = 64, /* where a function saves the frame pointer: so far below the end of its frame */
};

static_assert(PROFILE_FRAMES + OWN_FRAMES_MAX <= OS_UNWIND_FRAMES_MAX, "a site's frames and ours");

/* A word of a path: this far above the frame lies this. */
struct step {
    uintptr_t word; /* a return address; or a saved frame pointer, less the frame */
    uint32_t offset;
    uint32_t is_pointer; /* a saved frame pointer */
    struct trail *others; /* trails that differ from this step on; the last one taken is the first */
};

/* The path of a stack, or the end of one, from where it leaves a path that was there. */
struct trail {
    struct trail *next; /* of the same `others` */
    struct profile_site *site;
    struct step *end; /* of steps; behind them are the modules of its stack that may be unloaded */
    uint32_t module_count;
    struct step steps[];
};

static struct trail *root; /* as `others` of a step before the first */
static uintptr_t reach_bytes; /* all words of the tree lie below frame + reach_bytes */

/* The memory of the tree, in parts that are filled one after the other, and again when the tree is forgotten. */
static struct part {
    struct part *next;
    size_t used_bytes;
} *parts, *filling;
static uint32_t part_bytes; /* of all parts */
static uint64_t unwound;

static uintptr_t load(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* How much of this thread's stack there is above the frame at most; 0: not known. A thread's static thread-local memory
 * lies above its stack, but the first thread's does not. */
static inline uintptr_t room_above(uintptr_t frame)
{
    uintptr_t own = (uintptr_t)tcache_self();
    if (own > frame) return own - frame;
    return os_first_stack_end() > frame ? os_first_stack_end() - frame : 0;
}

/* Frame pointers are rare, so a step is first compared as a return address, which a frame pointer less the frame is
 * not. */
static inline bool is_at(const struct step *step, uintptr_t frame)
{
    uintptr_t found = load(frame + step->offset);
    return HAK_LIKELY(found == step->word) || (step->is_pointer != 0 && found - frame == step->word);
}

/* The first step from here on that the stack does not have; the end if it has all. Two at a time. */
static inline struct step *follow(struct step *step, struct step *end, uintptr_t frame)
{
    for (; end - step > 1; step += 2) {
        if (!is_at(step, frame)) return step;
        if (!is_at(step + 1, frame)) return step + 1;
    }
    return step != end && is_at(step, frame) ? end : step;
}

/* The same where the stack may end before the tree does. */
static HAK_COLD struct step *follow_within(struct step *step, struct step *end, uintptr_t frame, uintptr_t room_bytes)
{
    while (step != end && step->offset < room_bytes && is_at(step, frame)) step++;
    return step;
}

/* This trail is the first of *others from now on. */
static HAK_NOINLINE void put_first(struct trail **others, struct trail *before, struct trail *trail)
{
    before->next = trail->next; /* a child forked meanwhile may lack it */
    trail->next = *others;
    *others = trail;
}

/* NULL: not seen before. room_bytes matters where is_within, a constant. */
HAK_INLINE struct trail *find_in(bool is_within, uintptr_t frame, uintptr_t room_bytes)
{
    for (struct trail **others = &root;;) {
        struct trail *trail = *others, *before = NULL;
        while (trail != NULL &&
               (is_within ? follow_within(trail->steps, trail->steps + 1, frame, room_bytes) == trail->steps
                          : !is_at(trail->steps, frame))) {
            before = trail;
            trail = trail->next;
        }
        if (trail == NULL) return NULL;
        if (before != NULL) put_first(others, before, trail);
        struct step *step = is_within ? follow_within(trail->steps + 1, trail->end, frame, room_bytes)
                                      : follow(trail->steps + 1, trail->end, frame);
        if (step == trail->end) return trail;
        others = &step->others;
    }
}

/* --- learning ------------------------------------------------------------------------------------------------- */

static struct path {
    uintptr_t frame;
    uint32_t count;
    struct step steps[2 * PROFILE_FRAMES];
} path; /* of the stack that is being learned; too large for small stacks */

static void path_add(uintptr_t address, bool is_pointer)
{
    path.steps[path.count++] = (struct step){
        .word = load(address) - (is_pointer ? path.frame : 0),
        .offset = (uint32_t)(address - path.frame),
        .is_pointer = is_pointer,
    };
}

/* Adds the word from which the unwinder had the frame pointer of frames[of]. False: it is not found. */
static bool path_add_saved(const struct os_frame *frames, size_t of)
{
    uintptr_t wanted = frames[of].frame_pointer;
    size_t saver = of;
    while (saver > 0 && frames[saver].frame_pointer == wanted) saver--;
    uintptr_t end = frames[saver + 1].stack_pointer - sizeof wanted;
    for (uintptr_t at = end - sizeof wanted; at >= path.frame && at + SAVED_BYTES > end; at -= sizeof wanted) {
        if (load(at) != wanted) continue;
        path_add(at, true);
        return true;
    }
    return false;
}

/* frames[0] is the function with this frame. False: what the unwinder has read is not known. */
static bool path_make(uintptr_t frame, const struct os_frame *frames, size_t count, uintptr_t room_bytes)
{
    path.frame = frame;
    path.count = 0;
    uintptr_t known = frames[0].frame_pointer; /* the frame pointer that is on the path already */
    if (known != path.frame) return false;
    for (size_t i = 1; i < count; i++) {
        uintptr_t start = frames[i - 1].stack_pointer, end = frames[i].stack_pointer;
        if (end <= start || end - path.frame > room_bytes) return false;
        uintptr_t pointer = frames[i - 1].frame_pointer, slot = end - sizeof(uintptr_t);
        if (pointer >= start && pointer < end) { /* the function has a frame pointer */
            if (pointer + 2 * sizeof(uintptr_t) != end) return false;
            if (pointer != known && !path_add_saved(frames, i - 1)) return false;
            known = pointer;
        }
        if (load(slot) != frames[i].return_address) return false;
        path_add(slot, false);
    }
    return path.count > 0;
}

static bool is_same(const struct step *one, const struct step *other)
{
    return one->word == other->word && one->offset == other->offset && one->is_pointer == other->is_pointer;
}

static void tree_forget(void)
{
    root = NULL;
    reach_bytes = 0;
    for (struct part *part = parts; part != NULL; part = part->next) part->used_bytes = sizeof *part;
    filling = parts;
}

/* NULL: there is no memory, or too much is in use. */
static void *tree_alloc(size_t bytes)
{
    if (filling != NULL && filling->used_bytes + bytes > PART_BYTES) {
        struct part *next = filling->next;
        if (next != NULL) filling = next;
    }
    if (filling == NULL || filling->used_bytes + bytes > PART_BYTES) {
        struct part *part = part_bytes < LEARNED_BYTES_MAX ? meta_alloc(PART_BYTES) : NULL;
        if (part == NULL) return NULL;
        part_bytes += PART_BYTES;
        part->used_bytes = sizeof *part;
        if (filling != NULL) filling->next = part;
        else parts = part;
        filling = part;
    }
    void *memory = (char *)filling + filling->used_bytes;
    filling->used_bytes += bytes;
    return memory;
}

/* Adds what the tree lacks of the path, by one store. */
static void path_learn(struct profile_site *site, const struct site_modules *modules)
{
    struct trail **others = &root;
    uint32_t known = 0;
    for (;;) {
        struct trail *trail = *others;
        while (trail != NULL && !is_same(trail->steps, &path.steps[known])) trail = trail->next;
        if (trail == NULL) break;
        uint32_t same = 1;
        uint32_t trail_count = (uint32_t)(trail->end - trail->steps);
        while (same < trail_count && known + same < path.count &&
               is_same(&trail->steps[same], &path.steps[known + same]))
            same++;
        known += same;
        if (same == trail_count || known == path.count) return; /* it ends where the other one does not, or is known */
        others = &trail->steps[same].others;
    }
    uint32_t count = path.count - known;
    size_t steps_bytes = count * sizeof path.steps[0], modules_bytes = modules->count * sizeof modules->of[0];
    struct trail *trail = tree_alloc(sizeof(struct trail) + steps_bytes + modules_bytes);
    if (trail == NULL) return;
    memcpy(trail->steps, &path.steps[known], count * sizeof path.steps[0]);
    trail->site = site;
    trail->end = trail->steps + count;
    trail->module_count = modules->count;
    memcpy(trail->end, modules->of, modules_bytes);
    uintptr_t reach = path.steps[path.count - 1].offset + sizeof(uintptr_t);
    if (reach > reach_bytes) reach_bytes = reach;
    trail->next = *others;
    *others = trail;
}

/* The index of the function with this frame; 0: it is not found. */
static size_t index_of(uintptr_t frame, const struct os_frame *frames, size_t count)
{
    for (size_t i = 0; i + 1 < count && i < OWN_FRAMES_MAX; i++)
        if (frames[i].frame_pointer == frame && frames[i + 1].stack_pointer == frame + 2 * sizeof frame) return i;
    return 0;
}

/* What the unwinder finds, of one thread at a time; too large for small stacks. As many as threads ever unwound at once. */
struct scratch {
    struct scratch *next;
    struct os_frame frames[PROFILE_FRAMES + OWN_FRAMES_MAX];
};
static struct scratch *free_scratch; /* under the lock */

/* NULL: the system has no memory. */
static struct scratch *scratch_take(void)
{
    struct scratch *scratch = free_scratch;
    if (scratch == NULL) return meta_alloc(sizeof *scratch);
    free_scratch = scratch->next;
    return scratch;
}

static HAK_COLD HAK_ALIGNS_STACK struct profile_site *unwind_and_learn(uintptr_t frame, uintptr_t room_bytes)
{
    static struct site_modules modules; /* too large for small stacks; under the lock */
    struct scratch *scratch = scratch_take();
    if (scratch == NULL) return site_of(NULL, 0, &modules);
    struct os_frame *frames = scratch->frames;
    int saved = errno;
    unwound++;
    lock_release(LOCK_PROFILE);
    /* The unwinder may allocate and free. What it allocates is not sampled. */
    struct tcache *tcache = tcache_self();
    bool was_sampling = tcache->is_sampling;
    tcache->is_sampling = true;
    tcache->sampler = NULL; /* until the next slow path after this one */
    size_t count = os_unwind(frames, PROFILE_FRAMES + OWN_FRAMES_MAX), own = index_of(frame, frames, count),
           skipped = own != 0 ? own + 1 : 2;
    tcache->is_sampling = was_sampling;
    lock_acquire(LOCK_PROFILE);
    errno = saved;
    size_t site_count = count > skipped ? count - skipped : 0;
    if (site_count > PROFILE_FRAMES) site_count = PROFILE_FRAMES;
    struct profile_site *site = site_of(frames + skipped, (uint32_t)site_count, &modules);
    if (own != 0 && modules.count <= SITE_MODULES_MAX && path_make(frame, frames + own, site_count + 1, room_bytes))
        path_learn(site, &modules);
    scratch->next = free_scratch;
    free_scratch = scratch;
    return site;
}

/* Whether the modules of the stack are those with which it was learned. */
static HAK_NOINLINE bool modules_are_still(const struct trail *trail)
{
    const struct site_module *modules = (const struct site_module *)trail->end;
    for (uint32_t i = 0; i < trail->module_count; i++)
        if (!modules_is_still(modules[i].place, modules[i].return_address)) return false;
    return true;
}

static inline struct profile_site *site_in(const struct trail *trail, uintptr_t frame, uintptr_t room_bytes)
{
    if (HAK_LIKELY(trail != NULL)) {
        if (HAK_LIKELY(trail->module_count == 0) || modules_are_still(trail)) return trail->site;
        tree_forget();
    }
    return unwind_and_learn(frame, room_bytes);
}

static HAK_COLD struct profile_site *find_within(uintptr_t frame, uintptr_t room_bytes)
{
    return site_in(find_in(true, frame, room_bytes), frame, room_bytes);
}

struct profile_site *stack_site(uintptr_t frame)
{
    uintptr_t room_bytes = room_above(frame);
    if (HAK_UNLIKELY(reach_bytes > room_bytes)) return find_within(frame, room_bytes);
    return site_in(find_in(false, frame, room_bytes), frame, room_bytes);
}

uint64_t stacks_unwound(void)
{
    return unwound;
}
