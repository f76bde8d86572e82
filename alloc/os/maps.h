/* maps.h: what the kernel says of the process's mappings, read from /proc/self/maps with plain system calls into the
 * caller's stack: for reports. Async-signal-safe; allocates nothing; keeps errno. Not a part of the release
 * library. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MAPS_NAME_BYTES = 192 };

struct maps_entry {
    uintptr_t low, high;
    uint64_t file_offset;
    bool is_writable;
    bool is_file; /* of a module or another file; not anonymous */
    char name[MAPS_NAME_BYTES]; /* the file's path, or [stack] and the like; empty; cut off where it is too long */
};

/* Called with each entry, by rising address. True: no further. */
typedef bool maps_visit_fn(const struct maps_entry *entry, void *context);

/* False where there is no /proc. */
bool maps_scan(maps_visit_fn *visit, void *context);

/* The entry that an address lies in: true where there is one. */
bool maps_find(uintptr_t address, struct maps_entry *found);
