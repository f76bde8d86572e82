/* profile_modules.c: see profile_modules.h. */
#include "profile/profile_modules.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "os/maps.h"
#include "report/modules.h"
#include "profile/profile_file.h"
#include "report/place.h"
#include "report/text.h"

/* Fields of Profile and of Mapping. */
enum { MAPPING = 3, LOCATION = 4, STRING = 6 };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE, MAPPING_BUILD_ID };

enum { MAPPINGS_MAX = 1024 }; /* of files that the dynamic linker does not know */

static struct {
    uintptr_t low, high;
    uint32_t id;
} others[MAPPINGS_MAX]; /* by rising address */
static uint32_t other_count, mapping_count;
static uint32_t first_ids[MODULES_MAX]; /* of a module's mappings */
static uint32_t module_count;           /* that have mappings */
static uint64_t string_count;

static uint64_t put_string(const char *text)
{
    profile_put_bytes(STRING, text, strlen(text));
    return string_count++;
}

static void put_mapping(uintptr_t low, uintptr_t high, uint64_t offset, uint64_t file, uint64_t build_id)
{
    struct message message = {0};
    message_add(&message, MAPPING_ID, ++mapping_count);
    message_add(&message, MAPPING_START, low);
    message_add(&message, MAPPING_LIMIT, high);
    message_add(&message, MAPPING_OFFSET, offset);
    message_add(&message, MAPPING_FILE, file);
    if (build_id != 0) message_add(&message, MAPPING_BUILD_ID, build_id);
    profile_put_message(MAPPING, &message);
}

static uint64_t put_build_id(const struct module *module)
{
    char bytes[2 * IMAGE_BUILD_ID_MAX + 1];
    struct text text = {.bytes = bytes, .size = sizeof bytes - 1};
    place_add_build_id(&text, module);
    bytes[text.length] = '\0';
    return text.length > 0 ? put_string(bytes) : 0;
}

static void put_module(const struct module *module)
{
    const struct image *image = &module->image;
    uint64_t file = put_string(module->path), build_id = put_build_id(module);
    for (uint32_t i = 0; i < image->code_count; i++)
        put_mapping(image->codes[i].low, image->codes[i].high, image->codes[i].offset, file, build_id);
    if (image->code_count == 0) put_mapping(image->start, image->end, 0, file, build_id);
}

/* A file with code that the dynamic linker has not loaded. */
static bool put_other(const struct maps_entry *entry, void *context)
{
    (void)context;
    if (!entry->is_code || entry->name[0] == '\0' || modules_find(entry->low) != NULL) return false;
    if (other_count == MAPPINGS_MAX) return true;
    put_mapping(entry->low, entry->high, entry->file_offset, put_string(entry->name), 0);
    others[other_count].low = entry->low;
    others[other_count].high = entry->high;
    others[other_count++].id = mapping_count;
    return false;
}

void profile_put_mappings(uint64_t next_string)
{
    string_count = next_string;
    mapping_count = other_count = 0;
    module_count = modules_count();
    for (uint32_t i = 0; i < module_count; i++) {
        first_ids[i] = mapping_count + 1;
        put_module(modules_get(i));
    }
    maps_scan(put_other, NULL);
}

/* --- locations -------------------------------------------------------------------------------------------- */

static uint32_t mapping_of_module(uint32_t index, uint64_t address)
{
    const struct image *image = &modules_get(index)->image;
    if (image->code_count == 0) return first_ids[index];
    for (uint32_t i = 0; i < image->code_count; i++)
        if (address >= image->codes[i].low && address < image->codes[i].high) return first_ids[index] + i;
    return 0;
}

/* unreached: code that no file has, such as a JIT's */
static uint32_t mapping_of_other(uint64_t address)
{
    uint32_t low = 0, high = other_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (address >= others[middle].high) low = middle + 1;
        else high = middle;
    }
    return low < other_count && address >= others[low].low ? others[low].id : 0;
}

static bool is_in(uint32_t index, uint64_t address)
{
    const struct image *image = &modules_get(index)->image;
    return address >= image->start && address < image->end;
}

/* 0: in none. */
static uint32_t mapping_of(uint64_t address)
{
    static uint32_t last; /* most locations are near the one before */
    if (last < module_count && is_in(last, address)) return mapping_of_module(last, address);
    for (uint32_t i = 0; i < module_count; i++)
        if (is_in(i, address)) return mapping_of_module(last = i, address);
    return mapping_of_other(address);
}

void profile_put_location(uint64_t call)
{
    struct message message = {0};
    uint32_t mapping = mapping_of(call);
    message_add(&message, 1, call);
    if (mapping != 0) message_add(&message, 2, mapping);
    message_add(&message, 3, modules_shown((uintptr_t)call));
    profile_put_message(LOCATION, &message);
}
