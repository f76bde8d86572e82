/* amount.c: see amount.h. Reads files without stdio, since it runs before main and must not allocate. */
#include "control/amount.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "os/process/file.h"
#include "os/os.h"
#include "report/text.h"

enum { PATH_BYTES_MAX = 1024, FILE_BYTES_MAX = 4096 };

/* Reads a file into the buffer, as a string. False: it cannot be read. */
static bool read_file(const char *path, char *bytes, size_t size)
{
    size_t length = file_read(path, bytes, size - 1);
    bytes[length] = '\0';
    return length > 0;
}

/* The least of the limits in the cgroup and its parents. "max", and v1's number for no limit, which exceeds every
 * machine's memory, do not lower it. The path is cut in place. */
static uint64_t least_limit(const char *root, const char *mount, const char *name, char *cgroup, uint64_t least)
{
    for (;;) {
        char path[PATH_BYTES_MAX + 256], content[64];
        uint64_t limit;
        const char *at = content;
        text_string(path, sizeof path, "%s%s%s/%s", root, mount, cgroup, name);
        if (read_file(path, content, sizeof content) && text_digits(&at, &limit) && limit < least) least = limit;
        char *slash = strrchr(cgroup, '/');
        if (slash == NULL) return least;
        *slash = '\0'; /* the loop ends when no part of the path is left */
    }
}

/* Whether the controllers of a line of /proc/self/cgroup, up to the colon, have the memory controller among them. */
static bool has_memory(const char *controllers, const char *end)
{
    for (const char *at = controllers; at < end;) {
        const char *next = memchr(at, ',', (size_t)(end - at));
        if (next == NULL) next = end;
        if (next - at == 6 && memcmp(at, "memory", 6) == 0) return true;
        at = next + 1;
    }
    return false;
}

static uint64_t memory_bytes(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t least = pages > 0 ? (uint64_t)pages * os_page_bytes() : UINT64_MAX;
    char path[PATH_BYTES_MAX], content[FILE_BYTES_MAX];
    if (!read_file(text_string(path, sizeof path, "%s/proc/self/cgroup", root), content, sizeof content)) return least;
    /* Lines are "0::/path" (v2) and "N:controllers:/path" (v1). */
    for (char *line = content, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        char *controllers = strchr(line, ':');
        char *cgroup = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (cgroup == NULL) continue;
        const char *end = cgroup++;
        if (strlen(cgroup) >= PATH_BYTES_MAX) continue;
        if (strcmp(cgroup, "/") == 0) *cgroup = '\0';
        if (controllers + 1 == end) {
            least = least_limit(root, "/sys/fs/cgroup", "memory.max", cgroup, least);
        } else if (has_memory(controllers + 1, end)) {
            least = least_limit(root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", cgroup, least);
        }
    }
    return least;
}

bool amount_read(const char *text, const char *root, size_t *limit_bytes)
{
    static const char suffixes[] = "KMGT";
    uint64_t value;
    if (!text_digits(&text, &value) || value == 0) return false;
    if (*text == '%' && text[1] == '\0') {
        if (value > 100) return false;
        uint64_t memory = memory_bytes(root);
        *limit_bytes = memory / 100 * value + memory % 100 * value / 100;
        return true;
    }
    const char *suffix = *text != '\0' ? strchr(suffixes, *text) : NULL;
    if (suffix != NULL) {
        if (__builtin_mul_overflow(value, (uint64_t)1 << 10 * (suffix - suffixes + 1), &value)) return false;
        text++;
    }
    *limit_bytes = value;
    return *text == '\0';
}

/* As the kernel estimates it: without swapping. UINT64_MAX: it is not known. */
static uint64_t available_bytes(const char *root)
{
    static const char name[] = "MemAvailable:";
    char path[PATH_BYTES_MAX], content[FILE_BYTES_MAX];
    uint64_t kib;
    if (!read_file(text_string(path, sizeof path, "%s/proc/meminfo", root), content, sizeof content)) return UINT64_MAX;
    for (const char *line = content; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, sizeof name - 1) != 0) continue;
        line += sizeof name - 1;
        line += strspn(line, " ");
        return text_digits(&line, &kib) && kib <= UINT64_MAX >> 10 ? kib << 10 : UINT64_MAX;
    }
    return UINT64_MAX;
}

bool amount_is_there(size_t bytes, const char *root)
{
    uint64_t least = memory_bytes(root), available = available_bytes(root);
    if (available < least) least = available;
    return bytes <= least - least / 16;
}
