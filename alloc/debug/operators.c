/* operators.c: see operators.h. It searches the names that modules export. A module that hides its operators is no
 * concern: only it uses them, for both new and delete. */
#include "debug/operators.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tables of a module's exported names. */
struct names {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash;
};

static const char *const of_new[] = {
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
    NULL,
};
static const char *const of_delete[] = {
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", NULL,
};

/* Some loaders replace the offsets in the dynamic section by addresses, others do not. */
static const void *at(const struct names *names, ElfW(Addr) value)
{
    return (const void *)(value < names->base ? names->base + value : value);
}

static bool read_names(const struct dl_phdr_info *info, struct names *names)
{
    *names = (struct names){.base = info->dlpi_addr};
    const ElfW(Dyn) *entry = NULL;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (entry == NULL) return false;
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *value = at(names, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB) names->symbols = value;
        if (entry->d_tag == DT_STRTAB) names->strings = value;
        if (entry->d_tag == DT_GNU_HASH) names->gnu_hash = value;
        if (entry->d_tag == DT_HASH) names->hash = value;
    }
    return names->symbols != NULL && names->strings != NULL;
}

static bool is_definition(const struct names *names, uint32_t symbol, const char *name)
{
    return names->symbols[symbol].st_shndx != SHN_UNDEF &&
           strcmp(names->strings + names->symbols[symbol].st_name, name) == 0;
}

/* The table's header: number of buckets, first symbol in the table, words of the filter, its shift. Then come the
 * filter, the buckets and the chains. */
static bool defines_by_gnu_hash(const struct names *names, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++) hash = hash * 33 + (unsigned char)*c;
    const uint32_t *table = names->gnu_hash;
    uint32_t bucket_count = table[0], first = table[1], filter_words = table[2];
    const uint32_t *buckets = table + 4 + (size_t)filter_words * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chains = buckets + bucket_count;
    uint32_t symbol = bucket_count > 0 ? buckets[hash % bucket_count] : 0;
    if (symbol < first) return false;
    for (;; symbol++) {
        uint32_t found = chains[symbol - first];
        if ((found | 1) == (hash | 1) && is_definition(names, symbol, name)) return true;
        if ((found & 1) != 0) return false;
    }
}

static bool defines(const struct names *names, const char *name)
{
    if (names->gnu_hash != NULL) return defines_by_gnu_hash(names, name);
    if (names->hash == NULL) return false;
    for (uint32_t symbol = 0; symbol < names->hash[1]; symbol++) /* hash[1]: the number of symbols */
        if (is_definition(names, symbol, name)) return true;
    return false;
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
    struct names names;
    if (is_this_module(info) || is_cxx_library(info->dlpi_name) || !read_names(info, &names)) return 0;
    for (const char *const *name = wanted; *name != NULL; name++)
        if (defines(&names, *name)) return 1;
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
