/* sites.h: call stacks that have allocated, and the estimates for each. They are kept for the life of the process. Beyond
 * PROFILE_SITES_MAX all further ones count as one without frames. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "report/modules.h"
#include "os/unwind.h"

enum { PROFILE_FRAMES = 64, PROFILE_SITES_MAX = 1 << 16, SITE_MODULES_MAX = 16 };

/* A call stack and the estimates for it. Counters are written under the PROFILE lock and read by anyone: relaxed. */
struct profile_site {
    struct profile_site *next; /* in the list of all sites, and in its hash bucket */
    struct profile_site *next_in_bucket;
    _Atomic(uint64_t) objects_16, bytes; /* allocated; objects_16 in units of 1/65536 */
    _Atomic(uint64_t) freed_objects_16, freed_bytes;
    uint64_t hash;
    uint32_t count;
    uintptr_t frames[]; /* lasting return addresses (report/modules.h), the innermost first */
};

/* The modules of a stack that may be unloaded, each with a return address in it. */
struct site_modules {
    uint32_t count; /* SITE_MODULES_MAX + 1: there are more */
    struct site_module {
        uintptr_t return_address;
        const struct module_place *place;
    } of[SITE_MODULES_MAX];
};

/* Makes the tables. False: there is no memory. Under the PROFILE lock, as site_of. */
bool sites_start(void);

/* The site of a stack of at most PROFILE_FRAMES, without the frames of this library where it is a file of its own.
 * Sets *modules. */
struct profile_site *site_of(const struct os_frame *frames, uint32_t count, struct site_modules *modules);

/* The newest site; the others follow by `next`. A site that is seen has its frames. Any thread. */
struct profile_site *profile_sites(void);
