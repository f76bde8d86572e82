/* trace.c: see trace.h. */
#include "debug/trace.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/policy.h"
#include "os/stack/cfi.h"
#include "os/call.h"
#include "os/process/file.h"
#include "os/libc.h"
#include "os/maps.h"
#include "report/failfast.h"
#include "report/modules.h"
#include "report/place.h"
#include "report/settings.h"
#include "report/text.h"

enum {
    WAYS = 4,
    STACK_BYTES_MAX = 256 << 20,
    CLIMB_STEPS = 1, /* by call-frame information, at each malloc and free; a report takes as many as it has room for */
};

/* Every word is written and read atomically, relaxed. A record that two threads write at the same time is a mixture of
 * both. */
struct record {
    uintptr_t block;
    size_t size_bytes;
    uintptr_t allocated[TRACE_DEPTH], freed[TRACE_DEPTH]; /* a 0 ends each */
    uint32_t used_at; /* the clock at the last use of the record */
    int32_t allocated_by, freed_by; /* the kernel's thread ids; 0: not known */
};

static struct record records[TRACE_RECORDS];
static uint32_t clock_now;

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)

/* --- the table ------------------------------------------------------------------------------------------ */

static struct record *set_of(uintptr_t block)
{
    return &records[block * 0x9e3779b97f4a7c15 >> 32 & (TRACE_RECORDS / WAYS - 1) * WAYS];
}

static struct record *find(uintptr_t block)
{
    struct record *set = set_of(block);
    for (uint32_t way = 0; way < WAYS; way++)
        if (LOAD(set[way].block) == block) return &set[way];
    return NULL;
}

/* The block's record, or else the least recently used one of its set. */
static struct record *find_or_oldest(uintptr_t block)
{
    struct record *found = find(block), *set = set_of(block);
    if (found != NULL) return found;
    found = set;
    for (uint32_t way = 1; way < WAYS; way++)
        if ((int32_t)(LOAD(set[way].used_at) - LOAD(found->used_at)) < 0) found = &set[way];
    return found;
}

/* --- the stack ------------------------------------------------------------------------------------------ */

/* The bounds of this library in memory: traces leave its own functions out. */
extern const char __ehdr_start[] HAK_HIDDEN;
extern const char _end[] HAK_HIDDEN;

/* The upper end of the caller's stack. That is the thread's control block, or for the first thread the end that libc
 * knows. 0: neither is above `frame`, as on a stack that the program made itself. */
static uintptr_t stack_end(uintptr_t frame)
{
    uintptr_t control = (uintptr_t)__builtin_thread_pointer(), first = os_first_stack_end();
    if (frame < control && control - frame < STACK_BYTES_MAX) return control;
    return frame < first && first - frame < STACK_BYTES_MAX ? first : 0;
}

/* The lasting return address, by the module that the call is in. Only the first frame is sure to be one. */
static uintptr_t lasting_of(uintptr_t return_address, bool is_sure, const struct module_place **known)
{
    const struct module_place *place = *known;
    uintptr_t call = modules_lasting(return_address - 1, is_sure ? MODULES_SURELY : MODULES_PERHAPS, &place);
    if (place != NULL) *known = place;
    return call + 1;
}

/* A walk up the stack. */
struct walk {
    uintptr_t *addresses;
    uint32_t count;
    uintptr_t end; /* of the stack */
    const struct module_place *known; /* of the last frame whose module is still loaded */
};

static void add_address(struct walk *walk, uintptr_t address)
{
    STORE(walk->addresses[walk->count], lasting_of(address, walk->count == 0, &walk->known));
    walk->count++;
}

/* Goes up by call-frame information: out of the runtime, and this number of steps more. Returns the frame pointer there. */
static HAK_NOINLINE uintptr_t climb(struct walk *walk, struct cfi_frame frame, bool is_call, uint32_t steps)
{
    while (walk->count < TRACE_DEPTH) {
        if (HAK_LIKELY(!cfi_is_runtime(frame.pc)) && steps-- == 0) break;
        if (!cfi_step(&frame, is_call, walk->end) || frame.pc < 4096) break;
        is_call = true;
        add_address(walk, frame.pc);
    }
    return frame.frame;
}

/* Follows the chain of frame pointers. It must rise, and it ends in any value at all where the program was compiled without
 * frame pointers. So the first steps go by call-frame information. */
HAK_INLINE void follow(struct walk *walk, uintptr_t frame, uint32_t steps)
{
    while (walk->count < TRACE_DEPTH && frame % sizeof frame == 0 && frame < walk->end &&
           walk->end - frame >= 2 * sizeof frame) {
        const uintptr_t *words = (const uintptr_t *)frame + HAK_FRAME_RECORD;
        uintptr_t next = words[0], address = words[1];
        /* Under ASan the program and the library are one module, so nothing is left out. */
        bool is_own = !ASAN && address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
        if (!is_own && address < 4096) break;
        if (!is_own) {
            add_address(walk, address);
            if (steps > 0) next = climb(walk, (struct cfi_frame){address, frame + 2 * sizeof frame, next}, true, steps);
            steps = 0;
        }
        if (next <= frame) break;
        frame = next;
    }
    if (walk->count < TRACE_DEPTH) STORE(walk->addresses[walk->count], 0);
}

static HAK_NOINLINE HAK_READS_FRAMES void capture(uintptr_t *addresses, uint32_t steps)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    HAK_KEEP_FRAME_RECORD();
    struct walk walk = {.addresses = addresses, .end = stack_end(frame)};
    follow(&walk, frame, steps);
}

/* The registers of the fault that this thread reports; pc 0: none. */
static HAK_TLS struct {
    uintptr_t pc, frame, stack;
} fault;

void trace_fault_set(uintptr_t pc, uintptr_t frame, uintptr_t stack)
{
    HAK_MINE(fault.pc) = pc;
    HAK_MINE(fault.frame) = frame;
    HAK_MINE(fault.stack) = stack;
}

/* The frame pointer may hold anything: what lies below the stack pointer is no frame, and may not be mapped. */
static void capture_fault(uintptr_t *addresses)
{
    struct cfi_frame frame = {HAK_MINE(fault.pc), HAK_MINE(fault.stack), HAK_MINE(fault.frame)};
    struct walk walk = {.addresses = addresses, .end = stack_end(frame.stack)};
    add_address(&walk, frame.pc + 1);
    uintptr_t next = climb(&walk, frame, false, TRACE_DEPTH);
    follow(&walk, next >= frame.stack ? next : UINTPTR_MAX, 0);
}

bool trace_is_on(void)
{
    return failfast_level() >= (ASAN ? LEVEL_FRAMES : LEVEL_TRACES);
}

/* The kernel's id of this thread, kept since each asking is a system call. 0: not asked for yet. */
static HAK_TLS int32_t kept_id;

static int32_t thread_id(void)
{
    if (HAK_MINE(kept_id) == 0) HAK_MINE(kept_id) = call_gettid();
    return HAK_MINE(kept_id);
}

void trace_after_fork(void)
{
    HAK_MINE(kept_id) = 0;
}

void trace_allocated(const void *block, size_t size_bytes)
{
    if (!trace_is_on()) return;
    struct record *record = find_or_oldest((uintptr_t)block);
    STORE(record->block, 0);
    STORE(record->size_bytes, size_bytes);
    STORE(record->used_at, __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED));
    STORE(record->freed[0], 0);
    STORE(record->freed_by, 0);
    STORE(record->allocated_by, thread_id());
    capture(record->allocated, CLIMB_STEPS);
    STORE(record->block, (uintptr_t)block);
}

void trace_freed(const void *block)
{
    if (!trace_is_on()) return;
    struct record *record = find((uintptr_t)block);
    if (record == NULL) return;
    STORE(record->used_at, __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED));
    STORE(record->freed_by, thread_id());
    capture(record->freed, CLIMB_STEPS);
}

/* --- in a report ---------------------------------------------------------------------------------------- */

static_assert((int)TRACE_DEPTH == (int)FAILFAST_FRAMES, "an event holds what a record does");

static void copy_event(struct failfast_event *event, int32_t thread, const uintptr_t *addresses)
{
    *event = (struct failfast_event){.thread = (uint32_t)thread};
    while (event->count < TRACE_DEPTH && LOAD(addresses[event->count]) != 0) {
        event->frames[event->count] = LOAD(addresses[event->count]);
        event->count++;
    }
}

size_t trace_find(const void *block, struct failfast_event *allocated, struct failfast_event *freed)
{
    const struct record *record = trace_is_on() ? find((uintptr_t)block) : NULL;
    if (record == NULL) return 0;
    copy_event(allocated, LOAD(record->allocated_by), record->allocated);
    copy_event(freed, LOAD(record->freed_by), record->freed);
    return LOAD(record->size_bytes);
}

/* The file that a call is in. address - base is the number that addr2line expects. */
struct place {
    uintptr_t address, base;
    const struct module *module; /* NULL: the dynamic linker has not loaded the file */
    bool is_found;
    char name[MAPS_NAME_BYTES];
};

static bool visit(const struct maps_entry *entry, void *context)
{
    struct place *place = context;
    if (place->address < entry->low) return true;
    if (entry->is_file && strcmp(entry->name, place->name) != 0) {
        memcpy(place->name, entry->name, sizeof place->name);
        place->base = entry->low - entry->file_offset;
    }
    place->is_found = place->address < entry->high && entry->is_file;
    return place->address < entry->high;
}

/* Looks up the byte before a return address: that one is part of the call, and the return address may be in the next
 * line. */
static void find_place(uintptr_t return_address, struct place *place)
{
    *place = (struct place){.address = return_address - 1, .module = modules_find(return_address - 1)};
    if (place->module == NULL) {
        maps_scan(visit, place);
        return;
    }
    place->is_found = true;
    place->base = place->module->image.base;
    memcpy(place->name, place->module->path, strnlen(place->module->path, sizeof place->name - 1));
}

/* Frames beyond the first are believed only as far as they are in a file: a caller without frame pointers leaves any
 * number in that register. */
void trace_here(struct failfast_event *event)
{
    uintptr_t addresses[TRACE_DEPTH];
    struct place place;
    if (HAK_MINE(fault.pc) != 0) capture_fault(addresses);
    else capture(addresses, TRACE_DEPTH);
    copy_event(event, call_gettid(), addresses);
    for (uint32_t i = 1; i < event->count; i++) {
        find_place(event->frames[i], &place);
        if (!place.is_found) event->count = i;
    }
}

static void add_place(struct text *text, uintptr_t return_address)
{
    struct place place;
    find_place(return_address, &place);
    text_add(text, "hakmem:     ");
    if (place.module != NULL) {
        place_add(text, place.module, place.address);
    } else if (place.is_found) {
        text_print(text, "%s+%#lx", place.name, place.address - place.base);
    } else {
        /* A caller without a file: the program wrote its code itself. */
        text_print(text, "%p", (const void *)modules_shown(place.address));
    }
    text_add(text, "\n");
}

void trace_add_places(struct text *text, const struct failfast_event *event)
{
    for (uint32_t i = 0; i < event->count; i++) add_place(text, event->frames[i]);
}

void trace_add_thread(struct text *text, uint32_t thread)
{
    enum { NAME_BYTES = 16 }; /* with a newline; see TASK_COMM_LEN in prctl(2) */
    char path[48], name[NAME_BYTES];
    text_print(text, "%u", thread);
    size_t got = file_read(text_string(path, sizeof path, "/proc/self/task/%u/comm", thread), name, sizeof name);
    if (got < 2) return; /* no such thread, or it has no name but the newline */
    got--;
    for (size_t i = 0; i < got; i++)
        if (name[i] < ' ' || name[i] > '~') name[i] = '?';
    text_add(text, " (");
    text_add_bytes(text, name, got);
    text_add(text, ")");
}

/* Adds "hakmem: by thread 4711 (worker), freed at" and the places; without the thread if it is not known. */
static void add_event(struct text *text, const char *what, const struct failfast_event *event)
{
    if (event->count == 0 && event->thread == 0) return;
    text_add(text, "hakmem:   ");
    if (event->thread != 0) {
        text_add(text, "by thread ");
        trace_add_thread(text, event->thread);
        text_add(text, ", ");
    }
    text_add(text, what);
    trace_add_places(text, event);
}

void trace_describe(struct text *text, const void *block)
{
    struct failfast_event allocated = {.count = 0}, freed = {.count = 0};
    size_t size_bytes = trace_find(block, &allocated, &freed);
    if (find((uintptr_t)block) == NULL) return;
    text_print(text, "hakmem:   last asked for there: %zu bytes\n", size_bytes);
    add_event(text, "allocated at\n", &allocated);
    add_event(text, "freed at\n", &freed);
}

struct call {
    uintptr_t address, base; /* is_found is false if the address is in no file */
    bool is_found, is_runtime;
};

enum { EVENTS_MAX = 4 };

bool trace_add_command(struct text *text, const struct failfast_event *const *events, uint32_t event_count)
{
    struct call calls[EVENTS_MAX * TRACE_DEPTH];
    struct place place;
    uint32_t count = 0, best = 0, best_count = 0;
    for (uint32_t event = 0; event < event_count && event < EVENTS_MAX; event++)
        for (uint32_t i = 0; i < events[event]->count; i++) {
            find_place(events[event]->frames[i], &place);
            calls[count++] = (struct call){place.address, place.base, place.is_found, cfi_is_runtime_path(place.name)};
        }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < count; k++) same += calls[k].is_found && calls[k].base == calls[i].base;
        if (!calls[i].is_runtime) same += EVENTS_MAX * TRACE_DEPTH;
        if (calls[i].is_found && same > best_count) {
            best = i;
            best_count = same;
        }
    }
    if (best_count == 0) return false;
    find_place(calls[best].address + 1, &place);
    text_add(text, "addr2line -Cfipe ");
    text_add_word(text, place.name);
    for (uint32_t i = 0; i < count; i++) {
        if (!calls[i].is_found || calls[i].base != place.base) continue;
        text_print(text, " %#lx", calls[i].address - place.base);
    }
    return true;
}
