/* bad_pointer.c: see bad_pointer.h. */
#include "debug/bad_pointer.h"

#include <stdint.h>
#include <string.h>

#include "debug/lookup.h"
#include "heap/heap.h"
#include "heap/huge.h"
#include "os/maps.h"
#include "report/settings.h"
#include "superslab/pagemap.h"

/* Where an address lies, by the kernel's list of mappings. */
struct place {
    uintptr_t address, stack; /* stack is any address in this thread's stack */
    uintptr_t module_end;     /* end of a module's writable data: a mapping that starts here is its .bss */
    bool is_mapped, is_stack, is_static;
};

static bool visit(const struct maps_entry *entry, void *context)
{
    struct place *place = context;
    bool is_module = entry->is_file && entry->is_writable;
    bool is_zeroed = !entry->is_file && entry->name[0] == '\0' && entry->low == place->module_end;
    place->module_end = is_module ? entry->high : 0;
    if (place->address >= entry->high) return false;
    if (place->address < entry->low) return true;
    place->is_mapped = true;
    place->is_static = is_module || is_zeroed;
    /* One entry can hold a thread's stack and other mappings. The stack ends below the thread's control block. */
    uintptr_t control = (uintptr_t)__builtin_thread_pointer();
    place->is_stack = strncmp(entry->name, "[stack", 6) == 0;
    if (!entry->is_file && place->stack >= entry->low && place->stack < entry->high)
        place->is_stack = place->address < control || control < entry->low;
    return true;
}

/* gate: the program frees what is no block of ours: the debug-validation build says so */
static bool refuse_unknown(const void *pointer, enum failfast_kind freed)
{
    if (huge_is_cached(pointer))
        return failfast_refused(freed, pointer, "a huge block, whose mapping is kept for the next one");
    struct place place = {.address = (uintptr_t)pointer, .stack = (uintptr_t)__builtin_frame_address(0)};
    bool is_known = maps_scan(visit, &place);
    if (place.is_stack) return failfast_refused(FAILFAST_stack_pointer, pointer, NULL);
    if (place.is_static) return failfast_refused(FAILFAST_static_pointer, pointer, NULL);
    if (is_known && !place.is_mapped && pagemap_was_ours(pointer))
        return failfast_refused(FAILFAST_unmapped_pointer, pointer, NULL);
    const char *detail = is_known && !place.is_mapped ? "nothing is mapped there" : NULL;
    return failfast_refused(FAILFAST_foreign_pointer, pointer, detail);
}

bool bad_pointer_refused(const void *pointer, enum failfast_kind freed)
{
    if (pagemap_tag_checked(pointer) == CLASS_OWN_DEAD)
        return failfast_refused(FAILFAST_destroyed_heap, pointer, "the address is that of a block");
    switch (heap_lookup(pointer).kind) {
    case RECORD_KIND_run: return failfast_refused(FAILFAST_interior_pointer, pointer, "inside a page run");
    case RECORD_KIND_huge: return failfast_refused(FAILFAST_interior_pointer, pointer, "inside a huge block");
    case RECORD_KIND_free: return failfast_refused(freed, pointer, "its page is free now");
    /* unreached: by chance: another thread makes a slab there between two looks */
    case RECORD_KIND_slab: return failfast_refused(freed, pointer, "its slab was made a moment ago");
    case RECORD_KIND_guard: /* the debug-validation build samples nothing */
    case RECORD_KIND_none: break;
    }
    return refuse_unknown(pointer, freed);
}

static bool is_stray(const void *pointer)
{
    uint32_t tag = pagemap_tag_checked(pointer);
    return (tag == 0 || tag == CLASS_OWN_DEAD) && failfast_level() != LEVEL_NONE;
}

bool heap_may_free(const void *pointer)
{
    if (pointer == NULL) return true;
    const char *call = failfast_call_set("free");
    bool may = is_stray(pointer) ? bad_pointer_refused(pointer, FAILFAST_double_free) : validate_free(pointer);
    failfast_call_set(call);
    return may;
}

bool heap_may_resize(const void *pointer)
{
    const char *call = failfast_call_set("realloc");
    bool may = is_stray(pointer) ? bad_pointer_refused(pointer, FAILFAST_realloc_freed) : validate_live(pointer);
    failfast_call_set(call);
    return may;
}
