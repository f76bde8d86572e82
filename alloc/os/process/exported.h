/* exported.h: the names that a loaded file exports, by the tables of its dynamic section, which nothing here checks. Takes no lock;
 * allocates nothing. Any thread, while the file stays loaded. */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct exported {
    uintptr_t base; /* address in memory - address in the file */
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash; /* NULL: the file has no such table */
};

/* Finds the tables. may_be_addresses: the file was loaded by the dynamic linker; some replace the offsets in the dynamic section by
 * addresses, others do not. The kernel never does, and its offsets may be above the base: before Linux 3.16 that wraps around.
 * False: there are no tables. */
bool exported_read(uintptr_t base, const ElfW(Dyn) * dynamic, bool may_be_addresses, struct exported *exported);

/* The address of a name that the file defines; 0: it does not. */
uintptr_t exported_find(const struct exported *exported, const char *name);
