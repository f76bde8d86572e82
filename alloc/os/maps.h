/* maps.h: the process's mappings, for reports. Read from /proc/self/maps with plain system calls, into buffers on the
 * stack. Async-signal-safe; allocates nothing; keeps errno. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MAPS_NAME_BYTES = 512 };

struct maps_entry {
    uintptr_t low, high;
    uint64_t file_offset;
    bool is_writable, is_code;
    bool is_file; /* of a module or another file, not anonymous */
    char name[MAPS_NAME_BYTES]; /* the file's path, [stack] and the like, or empty; cut off where too long */
};

/* Called with each entry, by rising address. Returns true to end the scan. */
typedef bool maps_visit_fn(const struct maps_entry *entry, void *context);

/* Calls visit for each mapping. False where there is no /proc. */
bool maps_scan(maps_visit_fn *visit, void *context);

/* Finds the mapping that an address lies in. False where there is none. */
bool maps_find(uintptr_t address, struct maps_entry *found);
