/* crash_modules.c: see crash_modules.h. */
#include "crash/crash_modules.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "os/call.h"
#include "os/peek.h"

enum {
    HEADERS_MAX = 64,     /* program headers that are read of one file */
    NOTES_BYTES_MAX = 1024,
    REMEMBERED_MAX = 128,
    PAGE_MASK = 4095,     /* the smallest page size: segments are rounded at least to it */
};

static struct {
    uint64_t base, start, end;
    char path[256];
} remembered[REMEMBERED_MAX];
static size_t remembered_count;

/* --- headers in memory ------------------------------------------------------------------------- */

static void read_build_id(uint64_t notes, uint64_t notes_bytes, struct crash_module *module)
{
    static unsigned char bytes[NOTES_BYTES_MAX];
    if (notes_bytes > sizeof bytes) notes_bytes = sizeof bytes;
    if (!os_peek((const void *)(uintptr_t)notes, bytes, notes_bytes)) return;
    for (uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= notes_bytes;) {
        ElfW(Nhdr) note;
        memcpy(&note, bytes + at, sizeof note);
        uint64_t name = at + sizeof note;
        uint64_t content = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
        at = content + (((uint64_t)note.n_descsz + 3) & ~3ull);
        if (at > notes_bytes) return;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name, "GNU", 4) != 0) continue;
        module->build_id_bytes = note.n_descsz < MODULE_BUILD_ID_MAX ? note.n_descsz : MODULE_BUILD_ID_MAX;
        memcpy(module->build_id, bytes + content, module->build_id_bytes);
        return;
    }
}

/* The module's first mapping holds the file's first bytes, where linkers put the headers. */
static void read_headers(struct crash_module *module)
{
    ElfW(Ehdr) file;
    static ElfW(Phdr) headers[HEADERS_MAX]; /* static, since a signal stack may be small */
    module->base = module->start;
    if (!os_peek((const void *)(uintptr_t)module->start, &file, sizeof file) ||
        memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_phentsize != sizeof headers[0])
        return;
    size_t count = file.e_phnum < HEADERS_MAX ? file.e_phnum : HEADERS_MAX;
    if (!os_peek((const void *)(uintptr_t)(module->start + file.e_phoff), headers, count * sizeof headers[0])) return;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_LOAD || headers[i].p_offset > PAGE_MASK) continue;
        module->base = module->start - (headers[i].p_vaddr & ~(uint64_t)PAGE_MASK);
        break;
    }
    for (size_t i = 0; i < count && module->build_id_bytes == 0; i++)
        if (headers[i].p_type == PT_NOTE) read_build_id(module->base + headers[i].p_vaddr, headers[i].p_filesz, module);
}

/* --- /proc/self/maps ---------------------------------------------------------------------------------------- */

struct lines {
    int fd;
    size_t at, end;
    char bytes[4096];
};

static int next_byte(struct lines *lines)
{
    if (lines->at == lines->end) {
        intptr_t count = call_read(lines->fd, lines->bytes, sizeof lines->bytes);
        if (count <= 0) return -1;
        lines->at = 0;
        lines->end = (size_t)count;
    }
    return (unsigned char)lines->bytes[lines->at++];
}

static uint64_t hexadecimal(struct lines *lines, int *stop)
{
    uint64_t value = 0;
    for (;;) {
        int byte = next_byte(lines);
        if (byte >= '0' && byte <= '9') {
            value = value << 4 | (uint64_t)(byte - '0');
        } else if (byte >= 'a' && byte <= 'f') {
            value = value << 4 | (uint64_t)(byte - 'a' + 10);
        } else {
            *stop = byte;
            return value;
        }
    }
}

struct mapping {
    uint64_t start, end;
    bool is_code;
    char path[CRASH_PATH_MAX];
};

/* "start-end perms offset dev inode   path": the system writes all words but the last in each line. False at the end of
 * the file. */
static bool next_mapping(struct lines *lines, struct mapping *mapping)
{
    int byte = 0;
    mapping->start = hexadecimal(lines, &byte);
    if (byte != '-') return false;
    mapping->end = hexadecimal(lines, &byte);
    mapping->is_code = false;
    for (int word = 0; word < 4; word++) {
        for (byte = next_byte(lines); byte > ' '; byte = next_byte(lines))
            if (word == 0 && byte == 'x') mapping->is_code = true;
    }
    while (byte == ' ') byte = next_byte(lines);
    size_t length = 0;
    for (; byte >= 0 && byte != '\n'; byte = next_byte(lines))
        if (length < sizeof mapping->path - 1) mapping->path[length++] = (char)byte;
    mapping->path[length] = '\0';
    return byte == '\n';
}

/* Used only by the thread that writes the record. Static, since they are too large for its stack. */
static struct lines lines;
static struct mapping mapping;
static struct crash_module module;

static void module_done(bool has_code, void (*visit)(const struct crash_module *, void *), void *context, size_t *count)
{
    if (!has_code || *count == CRASH_MODULES_MAX) return;
    read_headers(&module);
    visit(&module, context);
    ++*count;
}

static size_t modules_mapped(void (*visit)(const struct crash_module *, void *), void *context)
{
    lines = (struct lines){.fd = call_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0)};
    size_t count = 0;
    bool has_code = false;
    module.path[0] = '\0';
    while (next_mapping(&lines, &mapping)) {
        if (mapping.path[0] != '/' && strcmp(mapping.path, "[vdso]") != 0) continue;
        if (strcmp(mapping.path, module.path) != 0) {
            module_done(has_code, visit, context, &count);
            module.start = mapping.start;
            module.build_id_bytes = 0;
            memcpy(module.path, mapping.path, sizeof module.path);
            has_code = false;
        }
        module.end = mapping.end;
        has_code = has_code || mapping.is_code;
    }
    module_done(has_code, visit, context, &count);
    call_close(lines.fd);
    return count;
}

/* --- modules as the linker listed them
 * ----------------------------------------------------------------------------------- */

static int remember(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uint64_t start = UINT64_MAX, end = 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD) continue;
        uint64_t low = info->dlpi_addr + header->p_vaddr, high = low + header->p_memsz;
        start = low < start ? low & ~(uint64_t)PAGE_MASK : start;
        end = high > end ? high : end;
    }
    size_t length = strnlen(info->dlpi_name, sizeof remembered[0].path - 1);
    remembered[remembered_count].base = info->dlpi_addr;
    remembered[remembered_count].start = start;
    remembered[remembered_count].end = end;
    memcpy(remembered[remembered_count].path, info->dlpi_name, length);
    remembered[remembered_count].path[length] = '\0';
    return ++remembered_count == REMEMBERED_MAX;
}

void modules_remember(void)
{
    remembered_count = 0;
    dl_iterate_phdr(remember, NULL);
}

void modules_for_each(void (*visit)(const struct crash_module *module, void *context), void *context)
{
    if (modules_mapped(visit, context) > 0) return;
    for (size_t i = 0; i < remembered_count; i++) {
        module.start = remembered[i].start;
        module.end = remembered[i].end;
        module.build_id_bytes = 0;
        memcpy(module.path, remembered[i].path, sizeof remembered[i].path);
        read_headers(&module);
        module.base = remembered[i].base;
        visit(&module, context);
    }
}
