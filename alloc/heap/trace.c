/* trace.c: see trace.h. */
#include "heap/trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/policy.h"
#include "os/libc.h"
#include "os/maps.h"
#include "report/settings.h"
#include "report/text.h"

enum { WAYS = 4, STACK_BYTES_MAX = 256 << 20 };

/* Every word is written and read atomically and without order: a record that two threads write at one time is
 * a mixture, and a report says so by its addresses. */
struct record {
    uintptr_t block;
    size_t size_bytes;
    uintptr_t allocated[TRACE_DEPTH], freed[TRACE_DEPTH]; /* up to a 0 */
    uint32_t used_at;                                     /* by the clock of the table */
    int32_t allocated_by, freed_by;                       /* kernel's ids of threads; 0: not known */
};

static struct record records[TRACE_RECORDS];
static uint32_t clock_now;

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)

/* --- the table ------------------------------------------------------------------------------------------ */

static struct record *set_of(uintptr_t block)
{
    return &records[(block >> 4) * 0x9e3779b97f4a7c15 >> 32 & (TRACE_RECORDS / WAYS - 1) * WAYS];
}

static struct record *find(uintptr_t block)
{
    struct record *set = set_of(block);
    for (uint32_t way = 0; way < WAYS; way++)
        if (LOAD(set[way].block) == block) return &set[way];
    return NULL;
}

/* The block's record, else the one of its set that was used least lately. */
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

/* Where the linker put this library, whose own functions are left out. */
extern const char __ehdr_start[] HAK_HIDDEN;
extern const char _end[] HAK_HIDDEN;

/* The upper end of the caller's stack: a thread's control block lies there, but for the first one's. 0: none of
 * the two is above `frame`, as on a stack that the program made. */
static uintptr_t stack_end(uintptr_t frame)
{
    uintptr_t control = (uintptr_t)__builtin_thread_pointer(), first = os_first_stack_end();
    if (frame < control && control - frame < STACK_BYTES_MAX) return control;
    return frame < first && first - frame < STACK_BYTES_MAX ? first : 0;
}

/* Each frame pointer points to the caller's, and to the return address behind it. The chain must rise. */
static HAK_NOINLINE HAK_READS_FRAMES void capture(uintptr_t *addresses)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), end = stack_end(frame);
    uint32_t count = 0;
    while (count < TRACE_DEPTH && frame % sizeof frame == 0 && frame + 2 * sizeof frame <= end) {
        const uintptr_t *words = (const uintptr_t *)frame;
        uintptr_t next = words[0], address = words[1];
        /* A sanitized program and the library are one module: of it nothing is left out. */
        bool is_own = !ASAN && address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
        if (!is_own && address < 4096) break;
        if (!is_own) STORE(addresses[count++], address);
        if (next <= frame) break;
        frame = next;
    }
    if (count < TRACE_DEPTH) STORE(addresses[count], 0);
}

bool trace_is_on(void) { return failfast_level() >= (ASAN ? LEVEL_FRAMES : LEVEL_TRACES); }

/* A system call each time: who is to see races of two threads has time. */
static int32_t thread_id(void) { return ASAN ? (int32_t)syscall(SYS_gettid) : 0; }

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
    capture(record->allocated);
    STORE(record->block, (uintptr_t)block);
}

void trace_freed(const void *block)
{
    if (!trace_is_on()) return;
    struct record *record = find((uintptr_t)block);
    if (record == NULL) return;
    STORE(record->used_at, __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED));
    STORE(record->freed_by, thread_id());
    capture(record->freed);
}

/* --- in a report ---------------------------------------------------------------------------------------- */

struct module {
    uintptr_t address, base;
    bool is_found;
    char name[MAPS_NAME_BYTES];
};

static bool visit(const struct maps_entry *entry, void *context)
{
    struct module *module = context;
    if (module->address < entry->low) return true;
    if (entry->is_file && strcmp(entry->name, module->name) != 0) {
        memcpy(module->name, entry->name, sizeof module->name);
        module->base = entry->low - entry->file_offset;
    }
    module->is_found = module->address < entry->high && entry->is_file;
    return module->address < entry->high;
}

static void add_place(struct text *text, uintptr_t address)
{
    struct module module = {.address = address};
    maps_scan(visit, &module);
    text_add(text, "hakmem:     ");
    if (module.is_found) {
        text_add(text, module.name);
        text_add(text, "+");
        text_add_hex(text, address - module.base);
    } else {
        text_add_address(text, (const void *)address);
    }
    text_add(text, "\n");
}

/* "hakmem:   by thread 4711, freed at", and where; without the thread where it is not known. */
static void add_places(struct text *text, const char *what, int32_t thread, const uintptr_t *addresses)
{
    if (LOAD(addresses[0]) == 0 && thread == 0) return;
    text_add(text, "hakmem:   ");
    if (thread != 0) {
        text_add(text, "by thread ");
        text_add_number(text, (uint64_t)thread);
        text_add(text, ", ");
    }
    text_add(text, what);
    for (uint32_t i = 0; i < TRACE_DEPTH && LOAD(addresses[i]) != 0; i++) add_place(text, LOAD(addresses[i]));
}

void trace_describe(struct text *text, const void *block)
{
    if (!trace_is_on()) return;
    const struct record *record = find((uintptr_t)block);
    if (record == NULL) return;
    text_add(text, "hakmem:   last asked for there: ");
    text_add_number(text, LOAD(record->size_bytes));
    text_add(text, " bytes\n");
    add_places(text, "allocated at\n", LOAD(record->allocated_by), record->allocated);
    add_places(text, "freed at\n", LOAD(record->freed_by), record->freed);
}
