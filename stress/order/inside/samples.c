/* samples.c: sampled blocks, the heap profile, and the files in which code is. */
#include "order/inside/scenarios.h"

#include <dlfcn.h>
#include <link.h>

#include "cache/thread.h"
#include "hakmem/hakmem.h"
#include "profile/profile.h"
#include "profile/sampler.h"
#include "profile/sites.h"
#include "report/loaded.h"
#include "report/modules.h"

static void warm_up(void)
{
    hak_free(hak_malloc(64));
}

/* --- who samples -------------------------------------------------------------------------------------- */

void scenario_sampling_begin(void)
{
    warm_up();
}

void scenario_sampling(unsigned thread)
{
    if (thread == 0) sampling_guard_set(1);
    else hak_free(hak_malloc(64));
}
SCENARIO_LAW_NONE(sampling)

/* --- the profile -------------------------------------------------------------------------------------- */

void scenario_profile_begin(void)
{
    warm_up();
}

void scenario_profile(unsigned thread)
{
    if (thread == 0) {
        profile_start(1, 7);
        return;
    }
    void *block = hak_malloc(64);
    if (profile_may_have()) profile_large_freed(block);
    hak_free(block);
}
SCENARIO_LAW_NONE(profile)

/* Guards are sampled for already. */
void scenario_sampler_begin(void)
{
    warm_up();
    sampling_guard_set(1u << 30);
}

void scenario_sampler(unsigned thread)
{
    if (thread == 0) profile_start(1, 7);
    else hak_free(hak_malloc(64));
}
SCENARIO_LAW_NONE(sampler)

void scenario_starts_begin(void)
{
    warm_up();
}

void scenario_starts(unsigned thread)
{
    profile_start(1, 7 + thread);
}
SCENARIO_LAW_NONE(starts)

static void *kept_blocks[20];

void scenario_parked_begin(void)
{
    warm_up();
    profile_start(1ull << 30, 7);
    for (int i = 0; i < 20; i++) kept_blocks[i] = hak_malloc(20000);
}

/* The first thread parks lists, and takes them again. */
void scenario_parked(unsigned thread)
{
    if (thread == 1) {
        hak_purge_all();
        return;
    }
    for (int i = 0; i < 20; i++) kept_blocks[i] = hak_malloc(20000);
    for (int i = 0; i < 20; i++) hak_free(kept_blocks[i]);
    hak_free(hak_malloc(20000));
    hak_free(hak_malloc(20000));
}
SCENARIO_LAW_NONE(parked)

void scenario_sites_begin(void)
{
    warm_up();
    profile_start(1, 7);
}

void scenario_sites(unsigned thread)
{
    if (thread == 0) {
        hak_free(hak_malloc(64));
        return;
    }
    uint64_t sum = 0;
    for (const struct profile_site *site = profile_sites(); site != NULL; site = site->next) sum += site->count;
    if (sum > 1000) order_fail("a site is found half made");
}
SCENARIO_LAW_NONE(sites)

/* --- files of code ------------------------------------------------------------------------------------ */

void scenario_modules_begin(void)
{
    warm_up();
}

static void find(uintptr_t address)
{
    const struct module_place *place = NULL;
    modules_find(modules_lasting(address, MODULES_SURELY, &place));
    modules_are_fixed(address);
}

void scenario_modules(unsigned thread)
{
    if (thread == 0) modules_start();
    find((uintptr_t)(void (*)(void))scenario_modules_begin);
    find((uintptr_t)(void (*)(void))order_fail);
}
SCENARIO_LAW_NONE(modules)

static uintptr_t in_file; /* an address in a file that was loaded later */

void scenario_places_begin(void)
{
    warm_up();
    modules_start();
    const struct link_map *file = dlopen("libresolv.so.2", RTLD_NOW);
    in_file = file != NULL ? (uintptr_t)file->l_ld : 0;
}

void scenario_places(unsigned thread)
{
    struct loaded loaded;
    if (thread == 0) find(in_file);
    else if (loaded_find(in_file, &loaded, NULL) && modules_known(&loaded) == NULL) find(in_file);
}
SCENARIO_LAW_NONE(places)
