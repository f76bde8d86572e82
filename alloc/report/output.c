/* output.c: see output.h. */
#include "report/output.h"

#include <stdarg.h>

#include "os/os.h"

void output_begin(struct output *out, FILE *stream, int fd)
{
    out->stream = stream;
    out->fd = fd;
    out->error = 0;
    out->text = (struct text){.bytes = out->bytes, .size = sizeof out->bytes};
}

int output_flush(struct output *out)
{
    if (out->error == 0 && out->text.length > 0) out->error = os_write_all(out->fd, out->bytes, out->text.length);
    out->text.length = 0;
    return out->error;
}

void output_print(struct output *out, const char *format, ...)
{
    char line[OUTPUT_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (out->stream != NULL) {
        fputs(line, out->stream);
        return;
    }
    if (out->text.length + sizeof line > out->text.size) output_flush(out);
    text_add(&out->text, line);
}

const char *amount_text(char text[AMOUNT_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, AMOUNT_BYTES, "%u B", (unsigned)bytes);
        return text;
    }
    uint32_t unit = 0;
    /* Up to 1023.9, since 1024.0 is one of the next unit. */
    while (unit < 5 && (bytes >> (10 * unit)) >= 1024 * 1024 - 52) unit++;
    uint64_t kib_of_unit = bytes >> (10 * unit);
    snprintf(text, AMOUNT_BYTES, "%u.%u %s", (unsigned)((kib_of_unit * 10 + 512) / 1024 / 10),
             (unsigned)((kib_of_unit * 10 + 512) / 1024 % 10), units[unit]);
    return text;
}
