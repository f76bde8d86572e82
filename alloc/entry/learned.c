/* learned.c: see learned.h. Allocates nothing, and uses no stdio. */
#include "entry/learned.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/sizeclass.h"
#include "cache/credits.h"
#include "heap/huge.h"
#include "heap/options.h"
#include "os/call.h"
#include "os/libc.h"
#include "os/os.h"
#include "report/text.h"
#include "superslab/purge.h"

enum { VERSION = 1, KEEP_PAGES_MAX = 1 << 24 /* a TiB */ };
static const char magic[8] = "hakmemL";

struct learned {
    char magic[8];
    uint32_t version;
    uint32_t classes; /* CLASS_COUNT */
    uint64_t keep_pages, huge_keep_bytes, huge_live_bytes;
    uint64_t sum; /* of the bytes, with this as 0 */
    uint16_t credits[CLASS_COUNT];
};

enum { KEPT_BYTES = PATH_MAX + OPTIONS_PATH_BYTES };
static char path_kept[KEPT_BYTES]; /* "": nothing is written */

/* FNV-1a, 64 bits. */
static uint64_t sum_of(struct learned learned)
{
    learned.sum = 0;
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < sizeof learned; i++) sum = (sum ^ ((const unsigned char *)&learned)[i]) * 0x100000001b3;
    return sum;
}

static void say(const char *path, const char *what, int error, const char *then)
{
    static char line[KEPT_BYTES + 192]; /* not on the stack: the thread that ends the program may have a small one */
    struct text text = {line, sizeof line - 1, 0};
    text_add(&text, "hakmem: HAKMEM_LEARNED=");
    text_add(&text, path);
    text_add(&text, ": ");
    text_add(&text, what);
    if (error != 0 && os_error_name(error) != NULL) {
        text_add(&text, ", ");
        text_add(&text, os_error_name(error));
    }
    text_add(&text, "; ");
    text_add(&text, then);
    line[text.length++] = '\n';
    os_write_error(line, text.length);
}

/* Fills *out with the start of a regular file. Returns an errno value; *length: how many bytes it
 * has, but at most one more than a whole file. */
static int read_file(const char *path, struct learned *out, size_t *length)
{
    struct stat status = {.st_mode = 0};
    char one_more;
    int error = 0, fd = call_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return -fd;
    *length = 0;
    if (call_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) error = EINVAL;
    while (error == 0 && *length <= sizeof *out) {
        bool is_whole = *length == sizeof *out;
        intptr_t got =
            call_read(fd, is_whole ? &one_more : (char *)out + *length, is_whole ? 1 : sizeof *out - *length);
        if (got < 0 && got != -EINTR) error = (int)-got;
        if (got == 0) break;
        if (got > 0) *length += (size_t)got;
    }
    call_close(fd);
    return error;
}

/* A path from the current directory is kept from the root, since the program may change the former. */
static void keep_path(const char *path)
{
    size_t length = 0;
    if (path[0] != '/' && call_getcwd(path_kept, PATH_MAX - 1) > 0) {
        length = strlen(path_kept);
        path_kept[length++] = '/';
    }
    memcpy(path_kept + length, path, strlen(path) + 1);
}

static void begin_with(const struct learned *learned)
{
    purge_keep_at_first((size_t)(learned->keep_pages < KEEP_PAGES_MAX ? learned->keep_pages : KEEP_PAGES_MAX));
    huge_keep_at_first((struct huge_learned){(size_t)learned->huge_keep_bytes, (size_t)learned->huge_live_bytes});
    credits_at_first_set(learned->credits);
}

void learned_read(const char *path)
{
    static const char defaults[] = "the defaults apply", alone[] = "the defaults apply, and the file stays as it is";
    struct learned learned = {0};
    size_t length = 0;
    int error = read_file(path, &learned, &length);
    if (error == 0 && length >= sizeof magic && memcmp(learned.magic, magic, sizeof magic) != 0) {
        say(path, "not a file of learned limits", 0, alone);
        return;
    }
    if (error != 0 && error != ENOENT) {
        say(path, "cannot be read", error, alone);
        return;
    }
    keep_path(path);
    if (error == ENOENT) return;
    bool has_version = length >= offsetof(struct learned, keep_pages);
    if (has_version && (learned.version != VERSION || learned.classes != CLASS_COUNT)) {
        say(path, "written by another version of hakmem", 0, defaults);
    } else if (length != sizeof learned || learned.sum != sum_of(learned)) {
        say(path, "damaged", 0, defaults);
    } else {
        begin_with(&learned);
    }
}

static struct learned collect(void)
{
    struct huge_learned huge = huge_learned();
    struct learned learned;
    memset(&learned, 0, sizeof learned); /* the padding too */
    memcpy(learned.magic, magic, sizeof magic);
    learned.version = VERSION;
    learned.classes = CLASS_COUNT;
    learned.keep_pages = purge_learned_pages();
    learned.huge_keep_bytes = huge.keep_bytes;
    learned.huge_live_bytes = huge.live_bytes;
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++)
        learned.credits[class_index] = (uint16_t)credits_learned(class_index);
    learned.sum = sum_of(learned);
    return learned;
}

/* Returns an errno value. */
static int write_file(const char *path, const struct learned *learned)
{
    call_unlink(path); /* of a process that had this id and was killed */
    int fd = call_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return -fd;
    const int error = os_write_all(fd, learned, sizeof *learned), close_error = -call_close(fd);
    return error != 0 ? error : close_error;
}

void learned_write(void)
{
    if (path_kept[0] == '\0') return;
    static char beside[KEPT_BYTES + 16]; /* as in say */
    struct text text = {beside, sizeof beside - 1, 0};
    text_add(&text, path_kept);
    text_add(&text, ".");
    text_add_number(&text, (uint64_t)call_getpid());
    beside[text.length] = '\0';
    struct learned learned = collect();
    int error = write_file(beside, &learned);
    if (error == 0) error = -call_rename(beside, path_kept);
    if (error != 0) {
        call_unlink(beside);
        say(path_kept, "cannot be written", error, "the next run begins without it");
    }
}
