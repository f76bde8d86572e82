/* operators.c: see operators.h. It searches the names that modules export. A module that hides its operators is no
 * concern: only it uses them, for both new and delete. */
#include "debug/operators.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "os/process/exported.h"

static const char *const of_new[] = {
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
    NULL,
};
static const char *const of_delete[] = {
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", NULL,
};

static bool read_names(const struct dl_phdr_info *info, struct exported *names)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return dynamic != NULL && exported_read(info->dlpi_addr, dynamic, true, names);
}

static bool is_this_module(const struct dl_phdr_info *info)
{
    uintptr_t here = (uintptr_t)of_new;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && here - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz) return true;
    }
    return false;
}

/* The C++ library's operators do not count: any reference to them, even its own, finds ours first. */
static bool is_cxx_library(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    return strncmp(file, "libstdc++.so", 12) == 0 || strncmp(file, "libc++.so", 9) == 0 ||
           strncmp(file, "libc++abi.so", 12) == 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *wanted)
{
    (void)size;
    struct exported names;
    if (is_this_module(info) || is_cxx_library(info->dlpi_name) || !read_names(info, &names)) return 0;
    for (const char *const *name = wanted; *name != NULL; name++)
        if (exported_find(&names, *name) != 0) return 1;
    return 0;
}

bool operators_elsewhere(enum operators which)
{
    static _Atomic(bool) found[2];
    /* relaxed: a thread that finds it unset searches again. It stays set for good, since blocks may outlive the
     * module. */
    if (atomic_load_explicit(&found[which], memory_order_relaxed)) return true;
    bool is_there = dl_iterate_phdr(visit, (void *)(uintptr_t)(which == OPERATORS_NEW ? of_new : of_delete)) != 0;
    if (is_there) atomic_store_explicit(&found[which], true, memory_order_relaxed);
    return is_there;
}
