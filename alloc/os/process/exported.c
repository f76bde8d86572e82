/* exported.c: see exported.h. The tables are those of the System V ABI, chapter 5, and GNU's hash table. */
#include "os/process/exported.h"

#include <stddef.h>

/* Not libc's strcmp: the process may just begin, and libc not have chosen its own yet. */
static bool is_same(const char *left, const char *right)
{
    while (*left != '\0' && *left == *right) left++, right++;
    return *left == *right;
}

bool exported_read(uintptr_t base, const ElfW(Dyn) * dynamic, bool may_be_addresses, struct exported *exported)
{
    *exported = (struct exported){.base = base};
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const ElfW(Addr) value = dynamic->d_un.d_ptr;
        const void *table = (const void *)(may_be_addresses && value >= base ? value : base + value);
        if (dynamic->d_tag == DT_SYMTAB) exported->symbols = table;
        if (dynamic->d_tag == DT_STRTAB) exported->strings = table;
        if (dynamic->d_tag == DT_GNU_HASH) exported->gnu_hash = table;
        if (dynamic->d_tag == DT_HASH) exported->hash = table;
    }
    return exported->symbols != NULL && exported->strings != NULL;
}

static bool is_definition(const struct exported *exported, uint32_t symbol, const char *name)
{
    return exported->symbols[symbol].st_shndx != SHN_UNDEF &&
           is_same(exported->strings + exported->symbols[symbol].st_name, name);
}

/* The table's header: number of buckets, first symbol in the table, words of the filter, its shift. Then come the
 * filter, the buckets and the chains. Returns the symbol's number; 0: there is none. */
static uint32_t find_by_gnu_hash(const struct exported *exported, const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++) hash = hash * 33 + (unsigned char)*c;
    const uint32_t *table = exported->gnu_hash;
    uint32_t bucket_count = table[0], first = table[1], filter_words = table[2];
    const uint32_t *buckets = table + 4 + (size_t)filter_words * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chains = buckets + bucket_count;
    uint32_t symbol = bucket_count > 0 ? buckets[hash % bucket_count] : 0;
    if (symbol < first) return 0;
    for (;; symbol++) {
        uint32_t found = chains[symbol - first];
        if ((found | 1) == (hash | 1) && is_definition(exported, symbol, name)) return symbol;
        if ((found & 1) != 0) return 0;
    }
}

static uint32_t find(const struct exported *exported, const char *name)
{
    if (exported->gnu_hash != NULL) return find_by_gnu_hash(exported, name);
    if (exported->hash == NULL) return 0;
    for (uint32_t symbol = 1; symbol < exported->hash[1]; symbol++) /* hash[1]: the number of symbols */
        if (is_definition(exported, symbol, name)) return symbol;
    return 0;
}

uintptr_t exported_find(const struct exported *exported, const char *name)
{
    const uint32_t symbol = find(exported, name);
    return symbol != 0 ? exported->base + exported->symbols[symbol].st_value : 0;
}
