/* crash_modules.h: which files are mapped with code, where, and their build ids. From /proc/self/maps, by read(2), and
 * from the headers in memory: no lock of the dynamic linker is taken, which a crash may have left held. Where there is
 * no /proc, from what the linker said when the handler was installed. Fit for a signal handler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MODULE_BUILD_ID_MAX = 64, MODULE_PATH_MAX = 512, MODULES_MAX = 512 };

struct module {
    uint64_t start, end; /* of its mappings */
    uint64_t base;       /* what the linker added to the file's own addresses */
    size_t build_id_bytes;
    unsigned char build_id[MODULE_BUILD_ID_MAX];
    char path[MODULE_PATH_MAX];
};

/* Asks the linker. Not in a handler. */
void modules_remember(void);

/* Calls visit for each, at most MODULES_MAX. The module is in use until visit returns. */
void modules_for_each(void (*visit)(const struct module *module, void *context), void *context);
