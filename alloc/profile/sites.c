/* sites.c: see sites.h. */
#include "profile/sites.h"

#include <string.h>

#include "base/policy.h"
#include "os/maps.h"
#include "os/meta.h"
#include "os/os.h"

enum { SITE_BUCKETS = 1 << 14 };

static struct profile_site **sites; /* SITE_BUCKETS */
static _Atomic(struct profile_site *) newest_site;
static uint32_t site_count;
static struct profile_site *other_site; /* for all that do not fit */

/* The library's own code, whose frames a site does not have. Empty where the library is part of the program's file. */
static uintptr_t own_low, own_high;

static void own_code_find(void)
{
    struct maps_entry own, program;
    if (!maps_find((uintptr_t)(void (*)(void))own_code_find, &own)) return;
    if (maps_find(os_program_address(), &program) && strcmp(own.name, program.name) == 0) return;
    own_low = own.low;
    own_high = own.high;
}

static struct profile_site *site_make(const struct os_frame *frames, uint32_t count, uint64_t hash)
{
    struct profile_site *site = meta_alloc(sizeof *site + count * sizeof site->frames[0]);
    if (site == NULL) return NULL;
    site->hash = hash;
    site->count = count;
    for (uint32_t i = 0; i < count; i++) site->frames[i] = frames[i].return_address;
    site->next = atomic_load_explicit(&newest_site, memory_order_relaxed);
    /* release: pairs with the acquire in profile_sites, whose reader needs the frames. */
    atomic_store_explicit(&newest_site, site, memory_order_release);
    site_count++;
    return site;
}

static bool site_has(const struct profile_site *site, const struct os_frame *frames, uint32_t count, uint64_t hash)
{
    if (site->hash != hash || site->count != count) return false;
    uint32_t same = 0;
    while (same < count && site->frames[same] == frames[same].return_address) same++;
    return same == count;
}

struct profile_site *site_of(const struct os_frame *frames, uint32_t count)
{
    for (; count > 0 && frames[0].return_address - own_low < own_high - own_low; count--) frames++;
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ frames[i].return_address) * 0x9e3779b97f4a7c15u;
    struct profile_site **bucket = &sites[hash >> 32 & (SITE_BUCKETS - 1)];
    for (struct profile_site *site = *bucket; site != NULL; site = site->next_in_bucket)
        if (site_has(site, frames, count, hash)) return site;
    struct profile_site *site = site_count < PROFILE_SITES_MAX ? site_make(frames, count, hash) : NULL;
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
    if (other_site == NULL) other_site = site_make(NULL, 0, 0);
    return sites != NULL && other_site != NULL;
}
