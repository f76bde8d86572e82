/* unwind.c: see unwind.h. */
#include "os/unwind.h"

#include <stdbool.h>

#include "base/policy.h"
#include "os/libc.h"

enum { OWN_FRAMES = 1 }; /* of os_unwind itself */

/* Copies what libc's own function finds. Inline, so that os_unwind is its caller: a function of its own might be called by
 * a jump, and os_unwind would have no frame. */
HAK_INLINE size_t unwind_by_libc(struct os_frame *frames, size_t count_max)
{
    void *addresses[OS_UNWIND_FRAMES_MAX + OWN_FRAMES];
    int found = os_backtrace(addresses, (int)count_max + OWN_FRAMES);
    size_t count = 0;
    for (int i = OWN_FRAMES; i < found; i++)
        frames[count++] = (struct os_frame){.return_address = (uintptr_t)addresses[i]};
    return count;
}

#if defined __GLIBC__ && defined __x86_64__

#include <dlfcn.h>
#include <unwind.h>

/* Weak: a static program has no use for them, and the linker would warn. */
#pragma weak dlopen
#pragma weak dlsym

enum { DWARF_RBP = 6 };

/* The functions of libgcc's unwinder, which glibc's backtrace loads; NULL: not known. */
static __typeof__(&_Unwind_Backtrace) unwind_all;
static __typeof__(&_Unwind_GetIP) unwind_ip;
static __typeof__(&_Unwind_GetCFA) unwind_cfa;
static __typeof__(&_Unwind_GetGR) unwind_register;

struct walk {
    struct os_frame *frames;
    size_t count, count_max, skipped;
};

static _Unwind_Reason_Code walk_on(struct _Unwind_Context *context, void *of)
{
    struct walk *walk = of;
    if (walk->skipped < OWN_FRAMES) {
        walk->skipped++;
        return _URC_NO_REASON;
    }
    struct os_frame frame = {unwind_ip(context), unwind_cfa(context), unwind_register(context, DWARF_RBP)};
    const struct os_frame *last = walk->count > 0 ? &walk->frames[walk->count - 1] : NULL;
    bool is_new =
        last == NULL || frame.return_address != last->return_address || frame.stack_pointer != last->stack_pointer;
    if (walk->count == walk->count_max || frame.return_address == 0 || !is_new) return _URC_END_OF_STACK;
    walk->frames[walk->count++] = frame;
    return _URC_NO_REASON;
}

struct os_unwinder os_unwind_find(void)
{
    struct os_unwinder found = {NULL, NULL, NULL, NULL};
    void *first[2];
    os_backtrace(first, 2);
    void *library = dlopen != NULL && dlsym != NULL ? dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (library == NULL) return found;
    found.ip = dlsym(library, "_Unwind_GetIP");
    found.cfa = dlsym(library, "_Unwind_GetCFA");
    found.reg = dlsym(library, "_Unwind_GetGR");
    if (found.ip != NULL && found.cfa != NULL && found.reg != NULL) found.walk = dlsym(library, "_Unwind_Backtrace");
    return found;
}

void os_unwind_start(const struct os_unwinder *found)
{
    if (found->walk == NULL || unwind_all != NULL) return;
    unwind_ip = (__typeof__(unwind_ip))found->ip;
    unwind_cfa = (__typeof__(unwind_cfa))found->cfa;
    unwind_register = (__typeof__(unwind_register))found->reg;
    unwind_all = (__typeof__(unwind_all))found->walk;
}

HAK_NOINLINE size_t os_unwind(struct os_frame *frames, size_t count_max)
{
    if (unwind_all == NULL) return unwind_by_libc(frames, count_max);
    struct walk walk = {.frames = frames, .count_max = count_max};
    unwind_all(walk_on, &walk);
    return walk.count;
}

#else

struct os_unwinder os_unwind_find(void)
{
    void *first[2];
    os_backtrace(first, 2);
    return (struct os_unwinder){NULL, NULL, NULL, NULL};
}

void os_unwind_start(const struct os_unwinder *found)
{
    (void)found;
}

HAK_NOINLINE size_t os_unwind(struct os_frame *frames, size_t count_max)
{
    return unwind_by_libc(frames, count_max);
}

#endif
