/* clock.c: see clock.h. */
#include "os/process/clock.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/policy.h"
#include "os/call.h"
#include "os/os.h"

#if defined(__aarch64__)
#define VDSO_CLOCK "__kernel_clock_gettime"
#else
#define VDSO_CLOCK "__vdso_clock_gettime"
#endif

typedef long clock_fn(clockid_t clock, struct timespec *now);

/* What the dynamic section of the vDSO points at. */
struct vdso {
    const ElfW(Sym) * symbols;
    const char *names;
    uint32_t count; /* of symbols */
};

static bool is_same(const char *left, const char *right)
{
    while (*left != '\0' && *left == *right) left++, right++;
    return *left == *right;
}

/* The newer kind of table does not say how many symbols there are: one behind the last of the longest chain. */
static uint32_t gnu_count(const uint32_t *table)
{
    const uint32_t buckets = table[0], first = table[1], filter_words = table[2];
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(table + 4) + filter_words),
                   *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++) last = bucket[i] > last ? bucket[i] : last;
    if (last < first) return 0;
    while ((chain[last - first] & 1) == 0) last++;
    return last + 1;
}

/* Reads the tables of the file that the kernel has mapped at `base`. They are its own, so nothing here checks them. */
static bool vdso_read(uintptr_t base, uintptr_t *bias, struct vdso *vdso)
{
    const ElfW(Ehdr) *file = (const void *)base;
    const ElfW(Phdr) *segment = (const void *)(base + file->e_phoff);
    const ElfW(Dyn) *entry = NULL;
    bool is_loaded = false;
    for (uint32_t i = 0; i < file->e_phnum; i++, segment++) {
        if (segment->p_type == PT_LOAD && !is_loaded) {
            *bias = base + segment->p_offset - segment->p_vaddr;
            is_loaded = true;
        }
        if (segment->p_type == PT_DYNAMIC) entry = (const void *)(base + segment->p_offset);
    }
    if (entry == NULL || !is_loaded) return false;
    const uint32_t *hash = NULL, *gnu_hash = NULL;
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *at = (const void *)(*bias + entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB) vdso->symbols = at;
        if (entry->d_tag == DT_STRTAB) vdso->names = at;
        if (entry->d_tag == DT_HASH) hash = at;
        if (entry->d_tag == DT_GNU_HASH) gnu_hash = at;
    }
    if (vdso->symbols == NULL || vdso->names == NULL || (hash == NULL && gnu_hash == NULL)) return false;
    vdso->count = hash != NULL ? hash[1] : gnu_count(gnu_hash);
    return true;
}

/* The kernel's function; NULL: it has none here, as under a tool that runs the program's instructions itself. */
static clock_fn *vdso_find(void)
{
    struct vdso vdso = {.count = 0};
    uintptr_t bias = 0;
    const uintptr_t base = os_told(AT_SYSINFO_EHDR);
    if (base == 0 || !vdso_read(base, &bias, &vdso)) return NULL;
    for (uint32_t i = 0; i < vdso.count; i++) {
        const ElfW(Sym) *symbol = &vdso.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && is_same(vdso.names + symbol->st_name, VDSO_CLOCK))
            return (clock_fn *)(bias + symbol->st_value);
    }
    return NULL;
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
