/* maps.c: see maps.h. A line is
 *
 *   low-high perms offset major:minor inode     name */
#include "os/maps.h"

#include <string.h>

#include "os/process/file.h"

enum { LINE_BYTES = 128 + MAPS_NAME_BYTES };

static const char *hex(const char *at, uint64_t *value)
{
    *value = 0;
    for (;; at++) {
        if (*at >= '0' && *at <= '9') {
            *value = *value << 4 | (uint64_t)(*at - '0');
        } else if (*at >= 'a' && *at <= 'f') {
            *value = *value << 4 | (uint64_t)(*at - 'a' + 10);
        } else {
            return at;
        }
    }
}

static const char *word_end(const char *at)
{
    while (*at != '\0' && *at != ' ') at++;
    return at;
}

static const char *blanks_end(const char *at)
{
    while (*at == ' ') at++;
    return at;
}

static bool parse(const char *line, struct maps_entry *entry)
{
    uint64_t low, high;
    const char *at = hex(line, &low);
    if (*at != '-') return false;
    at = hex(at + 1, &high);
    if (at[0] != ' ' || at[1] == '\0' || at[2] == '\0' || at[3] == '\0') return false;
    entry->low = (uintptr_t)low;
    entry->high = (uintptr_t)high;
    entry->is_writable = at[2] == 'w';
    entry->is_code = at[3] == 'x';
    at = hex(blanks_end(word_end(at + 1)), &entry->file_offset);
    at = blanks_end(word_end(blanks_end(at))); /* past the device */
    entry->is_file = *at != '0';
    at = blanks_end(word_end(at));
    size_t bytes = strlen(at);
    if (bytes >= sizeof entry->name) bytes = sizeof entry->name - 1;
    memcpy(entry->name, at, bytes);
    entry->name[bytes] = '\0';
    return true;
}

struct scan {
    maps_visit_fn *visit;
    void *context;
    struct maps_entry entry;
};

static bool visit_line(const char *line, size_t length, void *context)
{
    (void)length;
    struct scan *scan = context;
    return parse(line, &scan->entry) && scan->visit(&scan->entry, scan->context);
}

bool maps_scan(maps_visit_fn *visit, void *context)
{
    char line[LINE_BYTES + 1];
    struct scan scan = {.visit = visit, .context = context};
    return file_each("/proc/self/maps", '\n', line, sizeof line, visit_line, &scan);
}

struct search {
    uintptr_t address;
    struct maps_entry *found;
    bool is_found;
};

static bool visit_search(const struct maps_entry *entry, void *context)
{
    struct search *search = context;
    if (search->address >= entry->high) return false;
    search->is_found = search->address >= entry->low;
    if (search->is_found) *search->found = *entry;
    return true;
}

bool maps_find(uintptr_t address, struct maps_entry *found)
{
    struct search search = {address, found, false};
    maps_scan(visit_search, &search);
    return search.is_found;
}
