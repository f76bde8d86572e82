/* loaded.h: what the dynamic linker has loaded.
 *
 *   Law: no function here but loaded_start takes a lock of the linker. A thread that allocates may hold one, and a thread
 *   that holds one may wait for a thread that allocates; a child of fork may find one held for good.
 *
 * So the linker's list is read by os_peek, and one address is looked up by _dl_find_object (glibc 2.35), which takes no
 * lock. Async-signal-safe after loaded_start; allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/image.h"

enum { LOADED_MAX = 4096 }; /* ends a walk along a list that is broken */

struct loaded {
    uintptr_t start, end; /* its bounds in memory */
    uintptr_t map;        /* the linker's struct link_map; 0: there is no linker */
    uintptr_t frames;     /* its table of call frames, if loaded_is_quick */
};

/* Finds the linker's functions and its list. Once; may take the linker's lock and allocate. */
void loaded_start(void);

/* Whether there is _dl_find_object. Then loaded_find reads no memory of what it finds. */
bool loaded_is_quick(void);

/* Finds what is loaded at an address. Only one thread may use a room. */
bool loaded_find(uintptr_t address, struct loaded *found, struct image_room *room);

/* Calls visit for each, the program first, until it returns true. */
typedef bool loaded_visit_fn(const struct loaded *each, void *context);
void loaded_for_each(loaded_visit_fn *visit, void *context, struct image_room *room);

/* Whether it is the program itself. */
bool loaded_is_program(const struct loaded *each);

/* Copies its path as the linker has it; empty for the program. stays: see image.h. */
void loaded_name(const struct loaded *each, char *path, size_t size_bytes, bool stays);

/* Calls visit for what is never unloaded: the program, this library, and what they need. The last such call is the
 * program's. Only one thread may call it. */
void loaded_for_each_fixed(loaded_visit_fn *visit, void *context, struct image_room *room);
