/* image.c: see image.h. */
#include "report/image.h"

#include <assert.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "os/peek.h"

enum { PAGE_MASK = 4095 }; /* the smallest page size: segments are rounded at least to it */

static_assert(sizeof(ElfW(Phdr)) == IMAGE_HEADER_BYTES, "a room holds the headers");
static_assert(sizeof(ElfW(Ehdr)) == IMAGE_FILE_HEADER_BYTES, "an image holds the file's header");

static const void *pointer(uintptr_t address)
{
    return (const void *)address; /* NOLINT: an address in the image */
}

bool image_copy(uintptr_t from, void *to, size_t size_bytes, bool stays)
{
    if (!stays) return os_peek(pointer(from), to, size_bytes);
    memcpy(to, pointer(from), size_bytes);
    return true;
}

static void read_build_id(uintptr_t notes, uint64_t notes_bytes, struct image *image, struct image_room *room,
                          bool stays)
{
    unsigned char *bytes = room->notes;
    if (notes_bytes > sizeof room->notes) notes_bytes = sizeof room->notes;
    if (!image_copy(notes, bytes, notes_bytes, stays)) return;
    for (uint64_t at = 0; at + sizeof(ElfW(Nhdr)) <= notes_bytes;) {
        ElfW(Nhdr) note;
        memcpy(&note, bytes + at, sizeof note);
        uint64_t name = at + sizeof note;
        uint64_t content = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
        at = content + (((uint64_t)note.n_descsz + 3) & ~3ull);
        if (at > notes_bytes) return;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name, "GNU", 4) != 0) continue;
        image->build_id_bytes = note.n_descsz < IMAGE_BUILD_ID_MAX ? note.n_descsz : IMAGE_BUILD_ID_MAX;
        image->build_id_at = notes + content;
        memcpy(image->build_id, bytes + content, image->build_id_bytes);
        return;
    }
}

static void add_segment(const ElfW(Phdr) * header, struct image *image)
{
    uintptr_t low = (image->base + header->p_vaddr) & ~(uintptr_t)PAGE_MASK;
    uintptr_t high = (image->base + header->p_vaddr + header->p_memsz + PAGE_MASK) & ~(uintptr_t)PAGE_MASK;
    if (high > image->end) image->end = high;
    if ((header->p_flags & PF_X) != 0 && image->code_count < IMAGE_CODES_MAX)
        image->codes[image->code_count++] = (struct image_code){low, high, header->p_offset & ~(uint64_t)PAGE_MASK};
}

/* Whether a segment that can be read holds the notes. */
static bool is_mapped(const ElfW(Phdr) * headers, size_t count, const ElfW(Phdr) * notes)
{
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *each = &headers[i];
        if (each->p_type == PT_LOAD && (each->p_flags & PF_R) != 0 && notes->p_vaddr >= each->p_vaddr &&
            notes->p_vaddr + notes->p_filesz <= each->p_vaddr + each->p_filesz)
            return true;
    }
    return false;
}

bool image_read(uintptr_t start, struct image *image, struct image_room *room, bool stays)
{
    ElfW(Ehdr) file;
    *image = (struct image){.start = start, .base = start};
    if (!image_copy(start, &file, sizeof file, stays) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
        file.e_phentsize != IMAGE_HEADER_BYTES)
        return false;
    memcpy(image->header, &file, sizeof file);
    size_t count = file.e_phnum < IMAGE_HEADERS_MAX ? file.e_phnum : IMAGE_HEADERS_MAX;
    /* Behind the first page may be a hole: the headers may lie in no segment. */
    stays = stays && file.e_phoff <= PAGE_MASK + 1 - count * IMAGE_HEADER_BYTES;
    if (!image_copy(start + file.e_phoff, room->headers, count * IMAGE_HEADER_BYTES, stays)) return false;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)room->headers;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_LOAD || headers[i].p_offset > PAGE_MASK) continue;
        image->base = start - (headers[i].p_vaddr & ~(uintptr_t)PAGE_MASK);
        break;
    }
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_LOAD) add_segment(&headers[i], image);
        if (headers[i].p_type == PT_DYNAMIC) image->dynamic = image->base + headers[i].p_vaddr;
    }
    for (size_t i = 0; i < count && image->build_id_bytes == 0; i++) {
        if (headers[i].p_type != PT_NOTE || (stays && !is_mapped(headers, count, &headers[i]))) continue;
        read_build_id(image->base + headers[i].p_vaddr, headers[i].p_filesz, image, room, stays);
    }
    return true;
}
