/* maps.c: see maps.h. A line is
 *
 *   low-high perms offset major:minor inode     name */
#include "os/maps.h"

#include <errno.h>
#include <string.h>

#include "os/call.h"

enum { CHUNK_BYTES = 2048, LINE_BYTES = 128 + MAPS_NAME_BYTES };

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

/* files: of maps_scan */
static void scan_file(int file, maps_visit_fn *visit, void *context)
{
    char chunk[CHUNK_BYTES], line[LINE_BYTES + 1];
    struct maps_entry entry;
    size_t length = 0;
    intptr_t got;
    while ((got = call_read(file, chunk, sizeof chunk)) > 0 || got == -EINTR) {
        for (intptr_t i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                if (length < LINE_BYTES) line[length++] = chunk[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            if (parse(line, &entry) && visit(&entry, context)) return;
        }
    }
}

/* files: reports and dumps */
bool maps_scan(maps_visit_fn *visit, void *context)
{
    int file = call_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) {
        scan_file(file, visit, context);
        call_close(file);
    }
    return file >= 0;
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
