/* sites.c: see sites.h. */
#include "profile/sites.h"

#include "os/meta.h"

enum { SITE_BUCKETS = 1 << 14 };

static struct profile_site **sites; /* SITE_BUCKETS */
static _Atomic(struct profile_site *) newest_site;
static uint32_t site_count;
static struct profile_site *other_site; /* for all that do not fit */

/* The library's own code, whose frames a site does not have. Empty where the library is part of the program's file. */
static uintptr_t own_low, own_high;

static uintptr_t lasting[PROFILE_FRAMES]; /* of the stack that site_of looks for; too large for small stacks */

static void own_code_find(void)
{
    const struct module *own = modules_find((uintptr_t)(void (*)(void))own_code_find);
    if (own == NULL || own == modules_get(0)) return;
    own_low = own->image.start;
    own_high = own->image.end;
}

static void module_add(struct site_modules *modules, uintptr_t return_address, const struct module_place *place)
{
    uint32_t i = 0;
    while (i < modules->count && i < SITE_MODULES_MAX && modules->of[i].place != place) i++;
    if (i < modules->count) return;
    if (i < SITE_MODULES_MAX) modules->of[i] = (struct site_module){return_address, place};
    modules->count = i + 1;
}

/* The module is that of the call, one byte before. */
static void lasting_make(const struct os_frame *frames, uint32_t count, struct site_modules *modules)
{
    modules->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct module_place *place = NULL;
        lasting[i] = modules_lasting(frames[i].return_address - 1, MODULES_SURELY, &place) + 1;
        if (place != NULL) module_add(modules, frames[i].return_address - 1, place);
    }
}

static struct profile_site *site_make(uint32_t count, uint64_t hash)
{
    struct profile_site *site = meta_alloc(sizeof *site + count * sizeof site->frames[0]);
    if (site == NULL) return NULL;
    site->hash = hash;
    site->count = count;
    for (uint32_t i = 0; i < count; i++) site->frames[i] = lasting[i];
    site->next = atomic_load_explicit(&newest_site, memory_order_relaxed);
    /* release: pairs with the acquire in profile_sites, whose reader needs the frames. */
    atomic_store_explicit(&newest_site, site, memory_order_release);
    site_count++;
    return site;
}

static bool site_has(const struct profile_site *site, uint32_t count, uint64_t hash)
{
    if (site->hash != hash || site->count != count) return false;
    uint32_t same = 0;
    while (same < count && site->frames[same] == lasting[same]) same++;
    return same == count;
}

struct profile_site *site_of(const struct os_frame *frames, uint32_t count, struct site_modules *modules)
{
    for (; count > 0 && frames[0].return_address - own_low < own_high - own_low; count--) frames++;
    lasting_make(frames, count, modules);
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ lasting[i]) * 0x9e3779b97f4a7c15u;
    struct profile_site **bucket = &sites[hash >> 32 & (SITE_BUCKETS - 1)];
    for (struct profile_site *site = *bucket; site != NULL; site = site->next_in_bucket)
        if (site_has(site, count, hash)) return site;
    struct profile_site *site = site_count < PROFILE_SITES_MAX ? site_make(count, hash) : NULL;
    if (site == NULL) return other_site;
    site->next_in_bucket = *bucket;
    *bucket = site;
    return site;
}

struct profile_site *profile_sites(void)
{
    return atomic_load_explicit(&newest_site, memory_order_acquire);
}

bool sites_start(void)
{
    if (own_high == 0) own_code_find();
    if (sites == NULL) sites = meta_alloc(SITE_BUCKETS * sizeof *sites);
    if (other_site == NULL) other_site = site_make(0, 0);
    return sites != NULL && other_site != NULL;
}
