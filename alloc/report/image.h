/* image.h: what the headers of an ELF file in memory say: its ranges and its build id. They are read by os_peek, unless no
 * thread can unload the file meanwhile: a filter of system calls may end a process that asks for os_peek's.
 * Async-signal-safe; allocates nothing. */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_BUILD_ID_MAX = 64, IMAGE_FILE_HEADER_BYTES = 64, IMAGE_CODES_MAX = 4 };

struct image {
    uintptr_t start, end; /* its bounds in memory, on page boundaries */
    uintptr_t base; /* address in memory - address in the file */
    uintptr_t dynamic; /* its dynamic section; 0: none */
    struct image_code {
        uintptr_t low, high; /* a segment with code, on page boundaries */
        uint64_t offset; /* of its first byte in the file */
    } codes[IMAGE_CODES_MAX];
    uint32_t code_count, build_id_bytes;
    uintptr_t build_id_at; /* where the build id lies in memory */
    unsigned char build_id[IMAGE_BUILD_ID_MAX];
    unsigned char header[IMAGE_FILE_HEADER_BYTES]; /* the file's first bytes */
};

/* Reads the image whose first mapping begins at start. False, with base = start and the rest zero, if there are no
 * headers. One thread at a time may use a room. */
struct image_room;
bool image_read(uintptr_t start, struct image *image, struct image_room *room, bool stays);

/* Copies bytes of the file: at once if the file stays, else by os_peek. */
bool image_copy(uintptr_t from, void *to, size_t size_bytes, bool stays);

/* Memory for headers, too large for small stacks. */
enum { IMAGE_HEADERS_MAX = 64, IMAGE_NOTES_BYTES_MAX = 1024, IMAGE_HEADER_BYTES = 56 };
struct image_room {
    alignas(8) unsigned char headers[IMAGE_HEADERS_MAX * IMAGE_HEADER_BYTES];
    unsigned char notes[IMAGE_NOTES_BYTES_MAX];
};
