/* trace.c: see trace.h. */
#include "heap/trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

extern void *__libc_stack_end; /* of the dynamic linker: the upper end of the first thread's stack */

/* The upper end of the caller's stack: a thread's control block lies there, but for the first one's. 0: none of
 * the two is above `frame`, as on a stack that the program made. */
static uintptr_t stack_end(uintptr_t frame)
{
    uintptr_t control = (uintptr_t)__builtin_thread_pointer(), first = (uintptr_t)__libc_stack_end;
    if (frame < control && control - frame < STACK_BYTES_MAX) return control;
    return frame < first && first - frame < STACK_BYTES_MAX ? first : 0;
}

/* Each frame pointer points to the caller's, and to the return address behind it. The chain must rise. */
static __attribute__((noinline)) void capture(uintptr_t *addresses)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), end = stack_end(frame);
    uint32_t count = 0;
    while (count < TRACE_DEPTH && frame % sizeof frame == 0 && frame + 2 * sizeof frame <= end) {
        const uintptr_t *words = (const uintptr_t *)frame;
        uintptr_t next = words[0], address = words[1];
        bool is_own = address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
        if (!is_own && address < 4096) break;
        if (!is_own) STORE(addresses[count++], address);
        if (next <= frame) break;
        frame = next;
    }
    if (count < TRACE_DEPTH) STORE(addresses[count], 0);
}

void trace_allocated(const void *block, size_t size_bytes)
{
    if (failfast_level() < LEVEL_TRACES) return;
    struct record *record = find_or_oldest((uintptr_t)block);
    STORE(record->block, 0);
    STORE(record->size_bytes, size_bytes);
    STORE(record->used_at, __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED));
    STORE(record->freed[0], 0);
    capture(record->allocated);
    STORE(record->block, (uintptr_t)block);
}

void trace_freed(const void *block)
{
    if (failfast_level() < LEVEL_TRACES) return;
    struct record *record = find((uintptr_t)block);
    if (record == NULL) return;
    STORE(record->used_at, __atomic_add_fetch(&clock_now, 1, __ATOMIC_RELAXED));
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

static void add_places(struct text *text, const char *what, const uintptr_t *addresses)
{
    if (LOAD(addresses[0]) == 0) return;
    text_add(text, what);
    for (uint32_t i = 0; i < TRACE_DEPTH && LOAD(addresses[i]) != 0; i++) add_place(text, LOAD(addresses[i]));
}

void trace_describe(struct text *text, const void *block)
{
    if (failfast_level() < LEVEL_TRACES) return;
    const struct record *record = find((uintptr_t)block);
    if (record == NULL) return;
    text_add(text, "hakmem:   last asked for there: ");
    text_add_number(text, LOAD(record->size_bytes));
    text_add(text, " bytes\n");
    add_places(text, "hakmem:   allocated at\n", record->allocated);
    add_places(text, "hakmem:   freed at\n", record->freed);
}
