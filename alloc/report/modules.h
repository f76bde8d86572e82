/* modules.h: which file an address of code belongs to: by its path and its build id, also when the file is unloaded and
 * another one lies at its place.
 *
 * A lasting address names a module and a place in it for the life of the process. It is the address itself, unless the
 * range of another module has been there; then it is an address in a range that only this module has.
 *
 *   Law 1: the ranges of lasting addresses of two modules do not overlap, and no range changes.
 *   Law 2: a module is known before the first lasting address in its range exists, and is kept for good.
 *   Law 3: no lock of the dynamic linker is taken but by modules_start (loaded.h), and /proc is not needed.
 *
 * A file that is loaded again, elsewhere perhaps, is the same module if path, size and build id are the same; without a
 * build id, path, size and ELF header. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/image.h"

enum { MODULES_MAX = 1024, MODULE_PATH_MAX = 512, MODULES_PATH_BYTES = 2 * MODULE_PATH_MAX };

struct module {
    struct image image; /* start, end, base and codes by lasting addresses */
    char path[]; /* "" if the system does not tell; absolute, if the process has not changed its folder */
};

/* Learns what is loaded. May take the linker's lock, and allocate; so not inside malloc. Again: does nothing. Before it,
 * lasting addresses are the addresses. */
void modules_start(void);

/* Whether an address is in a file that is never unloaded: the program, this library, or what they need. After modules_start. */
bool modules_are_fixed(uintptr_t address);

/* Whether the memory of the module at an address can be read at once: it is on the calling thread's stack as a return
 * address, so that no other thread can unload the module. Else the system reads it for us. */
enum modules_trust { MODULES_PERHAPS, MODULES_SURELY };

/* Where a module was found that may be unloaded. It is kept for good. */
struct module_place;

/* The lasting address. Sets *place to where its module was found; NULL: there is none, or one that is never unloaded. If
 * *place is a place before the call, the caller knows that its module is still there, and the call does not look again.
 * Any thread; takes the MODULES lock for a module that was not seen before. */
uintptr_t modules_lasting(uintptr_t address, enum modules_trust trust, const struct module_place **place);

/* Whether the module of that place is still there; address is one in it, on the calling thread's stack. */
bool modules_is_still(const struct module_place *place, uintptr_t address);

/* The module of a lasting address; NULL if it is in none. Async-signal-safe. */
const struct module *modules_find(uintptr_t lasting);

/* The address for a reader: of code in no module, what it was. */
uintptr_t modules_shown(uintptr_t lasting);

/* All modules that were seen, the program first. index < modules_count(). Async-signal-safe. */
uint32_t modules_count(void);
const struct module *modules_get(uint32_t index);

/* For crash records. The module of a file that is loaded; NULL: it was not seen before. Async-signal-safe, as the next. */
struct loaded;
const struct module *modules_known(const struct loaded *loaded);

/* Makes a path of the name that the linker has, of at most MODULE_PATH_MAX bytes. */
void modules_path(const char *name, char path[MODULES_PATH_BYTES]);
