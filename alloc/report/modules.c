/* modules.c: see modules.h. Modules and places are added under the MODULES lock, each by one store, and never change. */
#include "report/modules.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

#include "os/call.h"
#include "os/libc.h"
#include "report/loaded.h"
#include "os/lock.h"
#include "os/maps.h"
#include "os/meta.h"
#include "os/os.h"
#include "os/peek.h"

enum {
    FIXED_PLACES_MAX = 256,
    SLOTS_LOG2 = 8,
    TOKEN_BYTES_MAX = 64,
    FIRST_PAGE_BYTES = 4096,
};

/* Neither is an address of memory. RANGES: where modules get ranges of their own. NOWHERE: marks an address in no module,
 * which lies in the range of a module that was there. */
static const uintptr_t RANGES = (uintptr_t)1 << 62, NOWHERE = (uintptr_t)1 << 61;

struct module_place {
    const struct module_place *next;
    struct loaded loaded;
    const struct module *module; /* NULL: there were too many */
    uintptr_t shift; /* from an address to the lasting one */
    uint32_t token_bytes; /* bytes in the first page that tell one build from another */
    uintptr_t token_at;
    unsigned char token[TOKEN_BYTES_MAX];
    char name[]; /* as the linker has it, cut at MODULE_PATH_MAX - 1 bytes */
};

static const struct module *modules[MODULES_MAX];
static _Atomic(uint32_t) module_count;
static const struct module_place *fixed[FIXED_PLACES_MAX]; /* by rising address */
static _Atomic(uint32_t) fixed_count; /* written once, with all of them */
static _Atomic(const struct module_place *) places, slots[1 << SLOTS_LOG2];
static uintptr_t ranges_next = RANGES;
static char folder[MODULE_PATH_MAX]; /* at the start */

/* Under the lock, or at the start. Too large for small stacks. */
static struct image_room room;
static char name[MODULE_PATH_MAX], path[MODULES_PATH_BYTES];

uint32_t modules_count(void)
{
    /* acquire: pairs with the release in module_make. */
    return atomic_load_explicit(&module_count, memory_order_acquire);
}

const struct module *modules_get(uint32_t index)
{
    return modules[index];
}

const struct module *modules_find(uintptr_t lasting)
{
    uint32_t count = modules_count();
    for (uint32_t i = 0; i < count; i++)
        if (lasting >= modules[i]->image.start && lasting < modules[i]->image.end) return modules[i];
    return NULL;
}

uintptr_t modules_shown(uintptr_t lasting)
{
    return (lasting & RANGES) == 0 ? lasting & ~NOWHERE : lasting;
}

/* --- a module that was not seen before ------------------------------------------------------------------ */

/* The kernel's list has the file itself, where it has one: the first argument may be a script. */
/* gate: the program's name, once: when modules_start places it, or for a block from before the library's start */
static void program_path(uintptr_t address)
{
    static const char deleted[] = " (deleted)";
    struct maps_entry entry;
    const char *from = maps_find(address, &entry) && entry.name[0] == '/' ? entry.name : NULL;
    if (from == NULL) from = (const char *)os_told(AT_EXECFN);
    size_t length = from != NULL ? strnlen(from, sizeof name - 1) : 0, end = sizeof deleted - 1;
    memcpy(name, from, length);
    if (length > end && from == entry.name && memcmp(from + length - end, deleted, end) == 0) length -= end;
    name[length] = '\0';
}

void modules_path(const char *from, char to[MODULES_PATH_BYTES])
{
    size_t length = strlen(folder);
    bool is_relative = from[0] != '/' && strchr(from, '/') != NULL; /* the kernel's own code has no folder */
    if (is_relative && length > 0) {
        memcpy(to, folder, length);
        to += length;
        if (to[-1] != '/') *to++ = '/';
        if (strncmp(from, "./", 2) == 0) from += 2;
    }
    strcpy(to, from);
}

static bool overlaps(uintptr_t low, uintptr_t high)
{
    for (uint32_t i = 0; i < modules_count(); i++)
        if (low < modules[i]->image.end && high > modules[i]->image.start) return true;
    return false;
}

static const struct module *module_make(const struct image *image)
{
    uint32_t count = modules_count();
    size_t path_bytes = strlen(path) + 1;
    struct module *module = count < MODULES_MAX ? meta_alloc(sizeof *module + path_bytes) : NULL;
    if (module == NULL) return NULL;
    uintptr_t shift = 0, size_bytes = image->end - image->start;
    if (overlaps(image->start, image->end)) {
        shift = ranges_next - image->start;
        ranges_next += size_bytes + FIRST_PAGE_BYTES;
    }
    module->image = *image;
    module->image.start += shift;
    module->image.end += shift;
    module->image.base += shift;
    for (uint32_t i = 0; i < image->code_count; i++) {
        module->image.codes[i].low += shift;
        module->image.codes[i].high += shift;
    }
    memcpy(module->path, path, path_bytes);
    modules[count] = module;
    /* release: publishes the module. Pairs with the acquire in modules_count. */
    atomic_store_explicit(&module_count, count + 1, memory_order_release);
    return module;
}

static bool is_same_module(const struct module *module, const struct image *image)
{
    const struct image *own = &module->image;
    return own->end - own->start == image->end - image->start && strcmp(module->path, path) == 0 &&
           own->build_id_bytes == image->build_id_bytes &&
           memcmp(own->build_id, image->build_id, image->build_id_bytes) == 0 &&
           memcmp(own->header, image->header, sizeof image->header) == 0;
}

static void token_keep(struct module_place *place, const struct image *image)
{
    bool is_near = image->build_id_at - place->loaded.start <= FIRST_PAGE_BYTES - IMAGE_BUILD_ID_MAX;
    if (image->build_id_bytes > 0 && is_near) {
        place->token_at = image->build_id_at;
        place->token_bytes = image->build_id_bytes;
        memcpy(place->token, image->build_id, place->token_bytes);
    } else if (image->code_count > 0) {
        place->token_at = image->start;
        place->token_bytes = sizeof image->header;
        memcpy(place->token, image->header, sizeof image->header);
    }
}

/* Under the lock, or at the start. */
static const struct module_place *place_make(const struct loaded *loaded, bool stays)
{
    static struct image image;
    loaded_name(loaded, name, sizeof name, stays);
    struct module_place *place = meta_alloc(sizeof *place + strlen(name) + 1);
    if (place == NULL) return NULL;
    strcpy(place->name, name);
    place->loaded = *loaded;
    image_read(loaded->start, &image, &room, stays);
    image.end = loaded->end;
    token_keep(place, &image);
    if (loaded_is_program(loaded)) program_path(loaded->start);
    modules_path(name, path);
    for (uint32_t i = 0; i < modules_count() && place->module == NULL; i++)
        if (is_same_module(modules[i], &image)) place->module = modules[i];
    if (place->module == NULL) place->module = module_make(&image);
    if (place->module != NULL) place->shift = place->module->image.start - loaded->start;
    place->next = atomic_load_explicit(&places, memory_order_relaxed);
    /* release: publishes the place. Pairs with the acquire in place_first. */
    atomic_store_explicit(&places, place, memory_order_release);
    return place;
}

/* --- what is at an address ------------------------------------------------------------------------------- */

static const struct module_place *fixed_at(uintptr_t address)
{
    /* acquire: pairs with the release in modules_start. */
    uint32_t low = 0, high = atomic_load_explicit(&fixed_count, memory_order_acquire);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (address >= fixed[middle]->loaded.end) low = middle + 1;
        else if (address >= fixed[middle]->loaded.start) return fixed[middle];
        else high = middle;
    }
    return NULL;
}

bool modules_are_fixed(uintptr_t address)
{
    return fixed_at(address) != NULL;
}

/* Whether what was found there is what the place says. */
static bool is_as_it_was(const struct module_place *place, const struct loaded *found, enum modules_trust trust)
{
    unsigned char token[TOKEN_BYTES_MAX];
    if (place->loaded.start != found->start || place->loaded.end != found->end || place->loaded.frames != found->frames)
        return false;
    if (!LIBC_UNLOADS) return true;
    if (trust == MODULES_SURELY && loaded_is_quick())
        return memcmp((const void *)place->token_at, place->token, place->token_bytes) == 0 &&
               strncmp(((const struct link_map *)found->map)->l_name, place->name, MODULE_PATH_MAX - 1) == 0;
    /* A process that may not ask believes that it is the same. */
    return !os_peek((const void *)place->token_at, token, place->token_bytes) ||
           memcmp(token, place->token, place->token_bytes) == 0;
}

static const struct module_place *place_first(void)
{
    /* acquire: pairs with the release in place_make. */
    return atomic_load_explicit(&places, memory_order_acquire);
}

const struct module *modules_known(const struct loaded *loaded)
{
    const struct module_place *place = place_first();
    while (place != NULL && !is_as_it_was(place, loaded, MODULES_PERHAPS)) place = place->next;
    return place != NULL ? place->module : NULL;
}

static _Atomic(const struct module_place *) *slot_of(uintptr_t start)
{
    return &slots[start * 0x9e3779b97f4a7c15u >> (64 - SLOTS_LOG2)];
}

/* Under the lock. */
static const struct module_place *place_of(const struct loaded *found, enum modules_trust trust)
{
    const struct module_place *place = atomic_load_explicit(&places, memory_order_relaxed);
    while (place != NULL && !is_as_it_was(place, found, trust)) place = place->next;
    if (place == NULL) place = place_make(found, trust == MODULES_SURELY && loaded_is_quick());
    /* release: publishes the place. Pairs with the acquire in place_at. */
    atomic_store_explicit(slot_of(found->start), place, memory_order_release);
    return place;
}

/* Without _dl_find_object the linker's list is walked, which takes some system calls for each file. So an address that
 * need not be one of code is only looked for where something was found before. */
/* unreached: glibc since 2.35 has _dl_find_object, which is quicker */
static const struct module_place *place_by_list(uintptr_t address, enum modules_trust trust)
{
    const struct module_place *place = place_first();
    struct loaded found;
    for (; place != NULL; place = place->next)
        if (address >= place->loaded.start && address < place->loaded.end && is_as_it_was(place, &place->loaded, trust))
            return place;
    if (trust != MODULES_SURELY) return NULL;
    lock_acquire(LOCK_MODULES);
    if (loaded_find(address, &found, &room)) place = place_of(&found, trust);
    lock_release(LOCK_MODULES);
    return place;
}

/* `known` is as it was. */
static const struct module_place *place_at(uintptr_t address, enum modules_trust trust,
                                           const struct module_place *known)
{
    struct loaded found;
    if (!loaded_is_quick()) return place_by_list(address, trust);
    if (!loaded_find(address, &found, NULL)) return NULL;
    if (known != NULL && known->loaded.start == found.start) return known;
    /* acquire: pairs with the release in place_of. */
    const struct module_place *place = atomic_load_explicit(slot_of(found.start), memory_order_acquire);
    if (place != NULL && is_as_it_was(place, &found, trust)) return place;
    lock_acquire(LOCK_MODULES);
    place = place_of(&found, trust);
    lock_release(LOCK_MODULES);
    return place;
}

uintptr_t modules_lasting(uintptr_t address, enum modules_trust trust, const struct module_place **place)
{
    const struct module_place *known = *place;
    *place = NULL;
    if (modules_count() == 0 || fixed_at(address) != NULL) return address;
    const struct module_place *found = place_at(address, trust, known);
    *place = found;
    if (found != NULL && found->module != NULL) return address + found->shift;
    return modules_find(address) != NULL ? address | NOWHERE : address;
}

bool modules_is_still(const struct module_place *place, uintptr_t address)
{
    return place_at(address, MODULES_SURELY, NULL) == place;
}

/* --- start ------------------------------------------------------------------------------------------------- */

static bool visit_fixed(const struct loaded *each, void *context)
{
    uint32_t *count = context;
    const struct module_place *place = place_make(each, false);
    if (place == NULL || place->shift != 0) return false;
    uint32_t at = (*count)++;
    for (; at > 0 && fixed[at - 1]->loaded.start > each->start; at--) fixed[at] = fixed[at - 1];
    fixed[at] = place;
    return *count == FIXED_PLACES_MAX;
}

/* files: at the start */
void modules_start(void)
{
    static _Atomic(bool) is_started;
    int saved = errno;
    uint32_t count = 0;
    /* relaxed: the lock orders what follows; a second thread may go on before the first has done. */
    if (atomic_exchange_explicit(&is_started, true, memory_order_relaxed)) return;
    loaded_start();
    lock_acquire(LOCK_MODULES);
    if (call_getcwd(folder, sizeof folder) <= 0) folder[0] = '\0';
    loaded_for_each_fixed(visit_fixed, &count, &room);
    /* release: publishes the places. Pairs with the acquire in fixed_at. */
    atomic_store_explicit(&fixed_count, count, memory_order_release);
    lock_release(LOCK_MODULES);
    errno = saved;
}
