/* file.c: see file.h. */
#include "os/process/file.h"

#include <errno.h>

#include "os/call.h"

enum { CHUNK_BYTES = 1024 };

/* files: of its callers */
size_t file_read(const char *path, char *bytes, size_t size)
{
    int fd = call_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    size_t length = 0;
    for (intptr_t got = 1; length < size && (got > 0 || got == -EINTR);) {
        got = call_read(fd, bytes + length, size - length);
        if (got > 0) length += (size_t)got;
    }
    call_close(fd);
    return length;
}

/* files: of its callers */
bool file_each(const char *path, char separator, char *entry, size_t size, file_visit_fn *visit, void *context)
{
    char chunk[CHUNK_BYTES];
    size_t length = 0;
    intptr_t got;
    bool is_over = false;
    int fd = call_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    while (!is_over && ((got = call_read(fd, chunk, sizeof chunk)) > 0 || got == -EINTR)) {
        for (intptr_t i = 0; i < got && !is_over; i++) {
            if (chunk[i] != separator) {
                if (length < size - 1) entry[length] = chunk[i];
                length++;
                continue;
            }
            entry[length < size - 1 ? length : size - 1] = '\0';
            is_over = visit(entry, length, context);
            length = 0;
        }
    }
    call_close(fd);
    return true;
}
