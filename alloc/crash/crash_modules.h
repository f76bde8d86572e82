/* crash_modules.h: the list of modules of a crash record, and the addresses by which the record names them.
 *
 * In a record a module that is loaded has its addresses in memory. One that was unloaded, and is named by what the heap
 * remembers, has addresses that no memory has. The list comes from report/modules.h and the dynamic linker's list, which is
 * read without a lock, since a crash may have left that held. Files with code that the linker has not loaded are found in
 * /proc/self/maps, if there is one. Async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report/image.h"

enum { CRASH_PATH_MAX = 512, CRASH_MODULES_MAX = 512 };

struct crash_module {
    uint64_t start, end; /* bounds of its mappings */
    uint64_t base;       /* address in the record - address in the file */
    size_t build_id_bytes;
    unsigned char build_id[IMAGE_BUILD_ID_MAX];
    char path[CRASH_PATH_MAX];
};

/* Looks which modules are loaded now. Before the functions below, by the thread that calls them. */
void crash_modules_look(void);

/* For a list that faulted: only what is loaded now stays, with the names that the linker has. */
void crash_modules_forget(void);

/* The record's return address for a lasting one. The module is that of the call, one byte before. */
uint64_t crash_modules_address(uintptr_t lasting);

/* Calls visit for each module, at most CRASH_MODULES_MAX, the program first. The struct is valid only until visit
 * returns. */
void crash_modules_for_each(void (*visit)(const struct crash_module *module, void *context), void *context);
