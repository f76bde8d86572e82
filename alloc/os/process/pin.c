/* pin.c: in libhakmem.a only. It keeps the module that the archive was linked into from being unloaded, as a linker option does
 * for the shared library: after a dlclose each thread still has our key, whose destructor is in the module. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"

/* Weak: a static program has no use for them, and the linker would warn. */
#pragma weak dladdr
#pragma weak dlopen

__attribute__((constructor)) static void pin(void)
{
    static const char here;
    enum { PAGE_MASK = 4095 };
    Dl_info module;
    if (dladdr == NULL || dlopen == NULL || dladdr(&here, &module) == 0) return;
    if ((uintptr_t)module.dli_fbase == (os_program_address() & ~(uintptr_t)PAGE_MASK)) return; /* a program stays */
    dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
