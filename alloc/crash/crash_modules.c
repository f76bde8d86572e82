/* crash_modules.c: see crash_modules.h. */
#include "crash/crash_modules.h"

#include <stdbool.h>
#include <string.h>

#include "crash/crash_try.h"
#include "os/maps.h"
#include "report/loaded.h"
#include "report/modules.h"

/* Marks the addresses of a module that was unloaded. No address of memory has this bit, and none of modules.c. */
static const uint64_t GONE = 1ull << 60;

/* What is loaded. Used only by the thread that writes the record. Static, since they are too large for its stack. */
static struct now {
    uintptr_t start, end;
    const struct module *module; /* NULL: it was not seen before */
    struct loaded loaded;
} now[CRASH_MODULES_MAX];
static size_t now_count;
static struct image_room room;
static struct image image;
static struct crash_module module;

/* The list of known modules lies beside the blocks: the program may have written over it. */
static bool known_is_damaged;

static bool visit_loaded(const struct loaded *each, void *context)
{
    (void)context;
    now[now_count++] = (struct now){.start = each->start, .end = each->end, .loaded = *each};
    return now_count == CRASH_MODULES_MAX;
}

static void find_known(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < now_count; i++) now[i].module = modules_known(&now[i].loaded);
}

void crash_modules_forget(void)
{
    known_is_damaged = true;
    for (size_t i = 0; i < now_count; i++) now[i].module = NULL;
}

void crash_modules_look(void)
{
    now_count = 0;
    known_is_damaged = false;
    loaded_for_each(visit_loaded, NULL, &room);
    if (!crash_try(find_known, NULL)) crash_modules_forget();
}

static const struct now *now_of(const struct module *known)
{
    for (size_t i = 0; i < now_count; i++)
        if (now[i].module == known) return &now[i];
    return NULL;
}

uint64_t crash_modules_address(uintptr_t lasting)
{
    const struct module *known = modules_find(lasting - 1);
    if (known == NULL) return modules_shown(lasting);
    const struct now *place = now_of(known);
    return place != NULL ? lasting - known->image.start + place->start : lasting | GONE;
}

/* --- the list ---------------------------------------------------------------------------------------------- */

struct list {
    void (*visit)(const struct crash_module *module, void *context);
    void *context;
    size_t count;
};

static void list_add(struct list *list)
{
    if (list->count == CRASH_MODULES_MAX) return;
    list->visit(&module, list->context);
    list->count++;
}

static void set_image(const struct image *from, uint64_t mark)
{
    module.start = from->start | mark;
    module.end = from->end | mark;
    module.base = from->base + mark; /* below 0 if the file has higher addresses */
    module.build_id_bytes = from->build_id_bytes;
    memcpy(module.build_id, from->build_id, from->build_id_bytes);
}

static void set_path(const char *path)
{
    size_t length = strnlen(path, sizeof module.path - 1);
    memcpy(module.path, path, length);
    module.path[length] = '\0';
}

static void add_loaded(const struct now *place, struct list *list)
{
    static char name[CRASH_PATH_MAX], path[MODULES_PATH_BYTES];
    image_read(place->start, &image, &room, false);
    image.end = place->end;
    set_image(&image, 0);
    if (place->module != NULL) {
        set_path(place->module->path);
    } else {
        loaded_name(&place->loaded, name, sizeof name, false);
        modules_path(name, path);
        set_path(path);
    }
    if (strchr(module.path, '/') == NULL) set_path("[vdso]"); /* the kernel's, as it calls it */
    list_add(list);
}

/* Mappings of one file that follow each other. */
struct files {
    struct list *list;
    bool has_code;
};

static void file_done(struct files *files)
{
    if (!files->has_code) return;
    uint64_t end = module.end;
    image_read((uintptr_t)module.start, &image, &room, false);
    set_image(&image, 0);
    module.end = end;
    list_add(files->list);
}

static bool is_loaded(uintptr_t address)
{
    for (size_t i = 0; i < now_count; i++)
        if (address >= now[i].start && address < now[i].end) return true;
    return false;
}

static bool visit_file(const struct maps_entry *entry, void *context)
{
    struct files *files = context;
    if (entry->name[0] != '/' || is_loaded(entry->low)) return false;
    if (strcmp(entry->name, module.path) != 0) {
        file_done(files);
        files->has_code = false;
        module.start = entry->low;
        set_path(entry->name);
    }
    module.end = entry->high;
    files->has_code = files->has_code || entry->is_code;
    return false;
}

void crash_modules_for_each(void (*visit)(const struct crash_module *each, void *context), void *context)
{
    struct list list = {.visit = visit, .context = context};
    struct files files = {.list = &list};
    for (size_t i = 0; i < now_count; i++) add_loaded(&now[i], &list);
    for (uint32_t i = 0; i < modules_count() && !known_is_damaged; i++) {
        const struct module *known = modules_get(i);
        if (now_of(known) != NULL) continue;
        set_image(&known->image, GONE);
        set_path(known->path);
        list_add(&list);
    }
    module.path[0] = '\0';
    maps_scan(visit_file, &files);
    file_done(&files);
}
