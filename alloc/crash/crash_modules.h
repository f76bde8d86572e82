/* crash_modules.h: lists the files that are mapped with code: where, and their build ids. It reads /proc/self/maps by
 * read(2), and the headers in memory. It takes no lock of the dynamic linker, since a crash may have left that held.
 * Where there is no /proc, it uses what the linker said when the handler was installed. Async-signal-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MODULE_BUILD_ID_MAX = 64, CRASH_PATH_MAX = 512, CRASH_MODULES_MAX = 512 };

struct crash_module {
    uint64_t start, end; /* bounds of its mappings */
    uint64_t base;       /* address in memory - address in the file */
    size_t build_id_bytes;
    unsigned char build_id[MODULE_BUILD_ID_MAX];
    char path[CRASH_PATH_MAX];
};

/* Asks the dynamic linker for its list. Not async-signal-safe. */
void modules_remember(void);

/* Calls visit for each module, at most CRASH_MODULES_MAX. The struct is valid only until visit returns. */
void modules_for_each(void (*visit)(const struct crash_module *module, void *context), void *context);
