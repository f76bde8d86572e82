/* crash_origin.c: see crash_origin.h. */
#include "crash/crash_origin.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "crash/crash_modules.h"
#include "crash/record_write.h"
#include "os/call.h"
#include "os/process/file.h"

enum {
    ARGUMENTS_BYTES_MAX = 16 * 1024,
    ENVIRONMENT_BYTES_MAX = 40 * 1024,
    INPUT_BYTES_MAX = 4096,
};

/* A file's first bytes. */
struct kept {
    char *bytes;
    size_t room, length; /* there is one byte more than the room */
    bool is_cut; /* the file is longer */
};

/* Size and time of a file, from stat. */
struct looks {
    bool is_known;
    uint64_t bytes, mtime_ns;
};

static char argument_bytes[ARGUMENTS_BYTES_MAX + 1], environment_bytes[ENVIRONMENT_BYTES_MAX + 1];
static struct kept arguments = {.bytes = argument_bytes, .room = ARGUMENTS_BYTES_MAX};
static struct kept environment = {.bytes = environment_bytes, .room = ENVIRONMENT_BYTES_MAX};
static char input[INPUT_BYTES_MAX];
static size_t input_length;
static struct looks program, library;
static int installed_process;

static void keep(struct kept *kept, const char *path)
{
    const size_t length = file_read(path, kept->bytes, kept->room + 1);
    kept->is_cut = length > kept->room;
    kept->length = kept->is_cut ? kept->room : length;
}

/* files: when the crash handler is installed */
static void look(struct looks *looks, const char *path)
{
    struct stat status = {.st_size = 0};
    if (call_stat(path, &status) != 0) return;
    looks->is_known = true;
    looks->bytes = (uint64_t)status.st_size;
    looks->mtime_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
}

static void look_at_library(const struct crash_module *module, void *unused)
{
    (void)unused;
    uint64_t here = (uint64_t)(uintptr_t)look_at_library;
    if (here >= module->start && here < module->end) look(&library, module->path);
}

/* files: when the crash handler is installed */
void origin_keep(void)
{
    bool is_first = installed_process == 0;
    installed_process = call_getpid();
    if (!is_first) return;
    keep(&arguments, "/proc/self/cmdline");
    keep(&environment, "/proc/self/environ");
    intptr_t length = call_readlink("/proc/self/fd/0", input, sizeof input);
    if (length > 0) input_length = (size_t)length;
    look(&program, "/proc/self/exe");
    crash_modules_look();
    crash_modules_for_each(look_at_library, NULL);
}

static void write_kept(struct record_writer *writer, enum record_field field, const struct kept *kept)
{
    if (kept->length == 0) return;
    record_bytes(writer, field, kept->bytes, kept->length);
    if (kept->is_cut) record_cut(writer, field);
}

static void write_looks(struct record_writer *writer, enum record_field bytes, enum record_field mtime,
                        const struct looks *looks)
{
    if (!looks->is_known) return;
    record_number(writer, bytes, looks->bytes);
    record_number(writer, mtime, looks->mtime_ns);
}

void origin_write(struct record_writer *writer)
{
    record_number(writer, RECORD_installed_process, (uint64_t)installed_process);
    write_looks(writer, RECORD_program_bytes, RECORD_program_mtime_ns, &program);
    write_looks(writer, RECORD_library_bytes, RECORD_library_mtime_ns, &library);
    if (input_length > 0) record_bytes(writer, RECORD_standard_input, input, input_length);
    write_kept(writer, RECORD_arguments, &arguments);
    write_kept(writer, RECORD_environment, &environment);
}
