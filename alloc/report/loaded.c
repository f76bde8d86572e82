/* loaded.c: see loaded.h. */
#include "report/loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "os/os.h"
#include "os/peek.h"

enum {
    PAGE_MASK = 4095,
    DYNAMIC_MAX = 256, /* entries of a dynamic section that are read */
    FIXED_MAX = 256,
    FILE_BYTES = 64, /* of a library's name; a longer one is not compared */
};

/* Weak: a static program has no use for it, and the linker would warn. */
#pragma weak dlsym

/* The first members of glibc's struct dl_find_object, and its size; other libcs have none. */
struct object {
    unsigned long long flags;
    uintptr_t start, end, map, frames;
    unsigned long long reserved[12];
};

static int (*find_object)(const void *address, struct object *found);
static struct image program;
static uintptr_t list; /* the linker's struct r_debug; 0: there is none */

static const void *pointer(uintptr_t address)
{
    return (const void *)address;
}

/* --- the program and the list -------------------------------------------------------------------------- */

static ElfW(Dyn) dynamic[DYNAMIC_MAX];

/* Reads as much as there is of a dynamic section, and zeros behind that. */
static void dynamic_read(uintptr_t at)
{
    memset(dynamic, 0, sizeof dynamic);
    if (at != 0) os_peek(pointer(at), dynamic, sizeof dynamic);
}

static uintptr_t dynamic_find(ElfW(Sxword) tag)
{
    for (int i = 0; i < DYNAMIC_MAX && dynamic[i].d_tag != DT_NULL; i++)
        if (dynamic[i].d_tag == tag) return dynamic[i].d_un.d_ptr;
    return 0;
}

void loaded_start(void)
{
    static struct image_room room;
    image_read(os_program_address() & ~(uintptr_t)PAGE_MASK, &program, &room, false);
    dynamic_read(program.dynamic);
    list = dynamic_find(DT_DEBUG);
    void *found = dlsym != NULL && list != 0 ? dlsym(RTLD_DEFAULT, "_dl_find_object") : NULL;
    memcpy(&find_object, &found, sizeof found);
}

bool loaded_is_quick(void)
{
    return find_object != NULL;
}

bool loaded_is_program(const struct loaded *each)
{
    return each->start == program.start;
}

static bool find_quickly(uintptr_t address, struct loaded *found)
{
    struct object object = {0}; /* the linker writes it, which MemorySanitizer does not see */
    if (find_object(pointer(address), &object) != 0) return false;
    *found = (struct loaded){object.start, object.end, object.map, object.frames};
    /* If there is a hole between two segments, the linker knows of each for itself. */
    if (found->start >= program.start && found->end <= program.end) {
        found->start = program.start;
        found->end = program.end;
    }
    return true;
}

/* Most files begin at the difference of their addresses in memory and in the file, which is what the linker lists. */
/* unreached: glibc since 2.35 has _dl_find_object, which is quicker */
static bool bounds_find(const struct link_map *map, struct loaded *each, struct image_room *room)
{
    if (find_object != NULL) return find_quickly((uintptr_t)map->l_ld, each);
    struct image image;
    uintptr_t start = (uintptr_t)map->l_ld == program.dynamic ? program.start : map->l_addr;
    if (!image_read(start, &image, room, false)) return false;
    each->start = image.start;
    each->end = image.end;
    return true;
}

void loaded_for_each(loaded_visit_fn *visit, void *context, struct image_room *room)
{
    struct r_debug head;
    if (list == 0) {
        const struct loaded only = {.start = program.start, .end = program.end};
        if (program.end != 0) visit(&only, context);
        return;
    }
    if (!os_peek(pointer(list), &head, sizeof head)) return;
    uintptr_t at = (uintptr_t)head.r_map;
    for (int i = 0; i < LOADED_MAX && at != 0; i++) {
        struct link_map map;
        struct loaded each = {.map = at};
        if (!os_peek(pointer(at), &map, sizeof map)) return;
        if (bounds_find(&map, &each, room)) {
            each.map = at;
            if (visit(&each, context)) return;
        }
        at = (uintptr_t)map.l_next;
    }
}

struct search {
    uintptr_t address;
    struct loaded *found;
    bool is_found;
};

/* unreached: glibc since 2.35 has _dl_find_object, which is quicker */
static bool visit_search(const struct loaded *each, void *context)
{
    struct search *search = context;
    search->is_found = search->address >= each->start && search->address < each->end;
    if (search->is_found) *search->found = *each;
    return search->is_found;
}

/* unreached: glibc since 2.35 has _dl_find_object, which is quicker */
bool loaded_find(uintptr_t address, struct loaded *found, struct image_room *room)
{
    if (find_object != NULL) return find_quickly(address, found);
    struct search search = {address, found, false};
    loaded_for_each(visit_search, &search, room);
    return search.is_found;
}

/* Copies a text of unknown length. */
static void text_read(uintptr_t at, char *text, size_t size_bytes)
{
    size_t part = PAGE_MASK + 1 - (at & PAGE_MASK);
    memset(text, 0, size_bytes);
    if (part < size_bytes && os_peek(pointer(at), text, part) && memchr(text, '\0', part) == NULL)
        os_peek(pointer(at + part), text + part, size_bytes - 1 - part);
    else if (part >= size_bytes) os_peek(pointer(at), text, size_bytes - 1);
}

void loaded_name(const struct loaded *each, char *path, size_t size_bytes, bool stays)
{
    struct link_map map;
    path[0] = '\0';
    if (loaded_is_program(each) || each->map == 0 || !image_copy(each->map, &map, sizeof map, stays)) return;
    if (stays) {
        size_t length = strnlen(map.l_name, size_bytes - 1);
        memcpy(path, map.l_name, length);
        path[length] = '\0';
    } else {
        text_read((uintptr_t)map.l_name, path, size_bytes);
    }
}

/* --- what is never unloaded -------------------------------------------------------------------------------- */

static struct kin {
    struct loaded loaded;
    uintptr_t dynamic, base;
    char file[FILE_BYTES]; /* the name without the folders */
    bool is_fixed, is_done;
} kin[FIXED_MAX];
static size_t kin_count;

static bool visit_kin(const struct loaded *each, void *context)
{
    static char path[4096];
    struct link_map map = {0};
    (void)context;
    if (each->map != 0) os_peek(pointer(each->map), &map, sizeof map);
    loaded_name(each, path, sizeof path, false);
    const char *slash = strrchr(path, '/'), *file = slash != NULL ? slash + 1 : path;
    uintptr_t own = (uintptr_t)(void (*)(void))loaded_start;
    kin[kin_count] = (struct kin){.loaded = *each, .dynamic = (uintptr_t)map.l_ld, .base = map.l_addr};
    kin[kin_count].is_fixed = loaded_is_program(each) || (own >= each->start && own < each->end);
    if (strlen(file) < FILE_BYTES) strcpy(kin[kin_count].file, file);
    return ++kin_count == FIXED_MAX;
}

/* The first of its name is what the linker gives to whatever needs one. */
static void fix_by_name(const char *file)
{
    for (size_t i = 0; i < kin_count; i++) {
        if (file[0] == '\0' || strcmp(kin[i].file, file) != 0) continue;
        kin[i].is_fixed = true;
        return;
    }
}

static void fix_needed(const struct kin *by)
{
    dynamic_read(by->dynamic);
    uintptr_t names = dynamic_find(DT_STRTAB);
    if (names < by->base) names += by->base; /* the linker has not made an address of it */
    for (int i = 0; i < DYNAMIC_MAX && dynamic[i].d_tag != DT_NULL; i++) {
        char file[FILE_BYTES];
        if (dynamic[i].d_tag != DT_NEEDED) continue;
        text_read(names + dynamic[i].d_un.d_val, file, sizeof file);
        fix_by_name(file);
    }
}

void loaded_for_each_fixed(loaded_visit_fn *visit, void *context, struct image_room *room)
{
    kin_count = 0;
    loaded_for_each(visit_kin, NULL, room);
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (size_t i = 0; i < kin_count; i++) {
            if (!kin[i].is_fixed || kin[i].is_done) continue;
            kin[i].is_done = is_more = true;
            fix_needed(&kin[i]);
        }
    }
    for (size_t i = 0; i < kin_count; i++)
        if (kin[i].is_fixed && visit(&kin[i].loaded, context)) return;
}
