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
    uint32_t count, reach_bytes; /* steps; all lie below frame + reach_bytes */
    struct step steps[];
};

static struct trail *root; /* as `others` of a step before the first */
static uint32_t learned_bytes;
static uint64_t unwound;

static uintptr_t load(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Where this thread's stack ends at the latest; 0: not known. A thread's static thread-local memory lies above its
 * stack, but the first thread's does not. */
static uintptr_t stack_end(uintptr_t frame)
{
    uintptr_t own = (uintptr_t)tcache_self();
    if (own > frame) return own;
    return os_first_stack_end() > frame ? os_first_stack_end() : 0;
}

/* Frame pointers are rare, so a step is first compared as a return address, which a frame pointer less the frame is
 * not. */
static inline bool is_at(const struct step *step, uintptr_t frame)
{
    uintptr_t found = load(frame + step->offset);
    return HAK_LIKELY(found == step->word) || (step->is_pointer != 0 && found - frame == step->word);
}

/* The first step of the trail that the stack does not have; the end if it has all. */
static inline struct step *follow(struct trail *trail, uintptr_t frame, uintptr_t room_bytes)
{
    struct step *step = trail->steps + 1, *end = trail->steps + trail->count;
    if (HAK_LIKELY(trail->reach_bytes <= room_bytes)) {
        for (; step != end; step++)
            if (!is_at(step, frame)) break;
    } else {
        while (step != end && step->offset < room_bytes && is_at(step, frame)) step++;
    }
    return step;
}

/* The first trail of *others of which the stack has a step; now it is the first one there. NULL: there is none. */
static inline struct trail *choose(struct trail **others, uintptr_t frame, uintptr_t room_bytes)
{
    struct trail *trail = *others, *before = NULL;
    while (trail != NULL && (trail->steps[0].offset >= room_bytes || !is_at(trail->steps, frame))) {
        before = trail;
        trail = trail->next;
    }
    if (trail == NULL || before == NULL) return trail;
    before->next = trail->next; /* a child forked meanwhile may lack it */
    trail->next = *others;
    *others = trail;
    return trail;
}

/* NULL: not seen before. */
static inline struct profile_site *find(uintptr_t frame, uintptr_t room_bytes)
{
    for (struct trail **others = &root, *trail; (trail = choose(others, frame, room_bytes)) != NULL;) {
        struct step *step = follow(trail, frame, room_bytes);
        if (step == trail->steps + trail->count) return trail->site;
        others = &step->others;
    }
    return NULL;
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
        if (slot < path.frame || load(slot) != frames[i].return_address) return false;
        path_add(slot, false);
    }
    return path.count > 0;
}

static bool is_same(const struct step *one, const struct step *other)
{
    return one->word == other->word && one->offset == other->offset && one->is_pointer == other->is_pointer;
}

/* Adds what the tree lacks of the path, by one store. */
static void path_learn(struct profile_site *site)
{
    struct trail **others = &root;
    uint32_t known = 0;
    for (;;) {
        struct trail *trail = *others;
        while (trail != NULL && !is_same(trail->steps, &path.steps[known])) trail = trail->next;
        if (trail == NULL) break;
        uint32_t same = 1;
        while (same < trail->count && known + same < path.count &&
               is_same(&trail->steps[same], &path.steps[known + same]))
            same++;
        known += same;
        if (same == trail->count || known == path.count) return; /* it ends where the other one does not, or is known */
        others = &trail->steps[same].others;
    }
    uint32_t count = path.count - known;
    size_t bytes = sizeof(struct trail) + count * sizeof path.steps[0];
    struct trail *trail = learned_bytes + bytes <= LEARNED_BYTES_MAX ? meta_alloc(bytes) : NULL;
    if (trail == NULL) return;
    learned_bytes += (uint32_t)bytes;
    memcpy(trail->steps, &path.steps[known], count * sizeof path.steps[0]);
    trail->site = site;
    trail->count = count;
    trail->reach_bytes = path.steps[path.count - 1].offset + (uint32_t)sizeof(uintptr_t);
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

static HAK_COLD struct profile_site *unwind_and_learn(uintptr_t frame, uintptr_t room_bytes)
{
    struct os_frame frames[PROFILE_FRAMES + OWN_FRAMES_MAX];
    int saved = errno;
    unwound++;
    lock_release(LOCK_PROFILE); /* the unwinder may allocate and free */
    size_t count = os_unwind(frames, PROFILE_FRAMES + OWN_FRAMES_MAX), own = index_of(frame, frames, count),
           skipped = own != 0 ? own + 1 : 2;
    lock_acquire(LOCK_PROFILE);
    errno = saved;
    size_t site_count = count > skipped ? count - skipped : 0;
    if (site_count > PROFILE_FRAMES) site_count = PROFILE_FRAMES;
    struct profile_site *site = site_of(frames + skipped, (uint32_t)site_count);
    if (own != 0 && path_make(frame, frames + own, site_count + 1, room_bytes)) path_learn(site);
    return site;
}

struct profile_site *stack_site(uintptr_t frame)
{
    uintptr_t end = stack_end(frame), room_bytes = end != 0 ? end - frame : 0;
    struct profile_site *site = find(frame, room_bytes);
    return HAK_LIKELY(site != NULL) ? site : unwind_and_learn(frame, room_bytes);
}

uint64_t stacks_unwound(void)
{
    return unwound;
}
