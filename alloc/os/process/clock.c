/* clock.c: see clock.h. */
#include "os/process/clock.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "base/policy.h"
#include "os/call.h"
#include "os/process/exported.h"
#include "os/os.h"

#if defined(__aarch64__)
#define VDSO_CLOCK "__kernel_clock_gettime"
#else
#define VDSO_CLOCK "__vdso_clock_gettime"
#endif

typedef long clock_fn(clockid_t clock, struct timespec *now);

/* Reads the tables of the file that the kernel has mapped at `base`. They are its own, so nothing here checks them. */
static bool vdso_read(uintptr_t base, struct exported *vdso)
{
    const ElfW(Ehdr) *file = (const void *)base;
    const ElfW(Phdr) *segment = (const void *)(base + file->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t bias = 0;
    bool is_loaded = false;
    for (uint32_t i = 0; i < file->e_phnum; i++, segment++) {
        if (segment->p_type == PT_LOAD && !is_loaded) {
            bias = base + segment->p_offset - segment->p_vaddr;
            is_loaded = true;
        }
        if (segment->p_type == PT_DYNAMIC) dynamic = (const void *)(base + segment->p_offset);
    }
    return is_loaded && dynamic != NULL && exported_read(bias, dynamic, false, vdso);
}

/* The kernel's function; NULL: it has none here, as under a tool that runs the program's instructions itself. */
static clock_fn *vdso_find(void)
{
    struct exported vdso;
    const uintptr_t base = os_told(AT_SYSINFO_EHDR);
    return base != 0 && vdso_read(base, &vdso) ? (clock_fn *)exported_find(&vdso, VDSO_CLOCK) : NULL;
}

static long by_call(clockid_t clock, struct timespec *now)
{
    return call_clock_gettime(clock, now);
}

void clock_read(clockid_t clock, struct timespec *now)
{
    static _Atomic(clock_fn *) found; /* relaxed: it is the same in each thread, and the code was there before */
    clock_fn *function = atomic_load_explicit(&found, memory_order_relaxed);
    if (HAK_UNLIKELY(function == NULL)) {
        function = OWN_CALLS ? vdso_find() : by_call;
        if (function == NULL) function = by_call;
        atomic_store_explicit(&found, function, memory_order_relaxed);
    }
    if (function(clock, now) != 0) *now = (struct timespec){.tv_sec = 0};
}
