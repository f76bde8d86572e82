/* profile_write.c: see profile_write.h. The format is github.com/google/pprof/proto/profile.proto. */
#include "profile/profile_write.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/config.h"
#include "os/call.h"
#include "os/process/clock.h"
#include "os/os.h"
#include "profile/profile.h"
#include "profile/profile_file.h"
#include "profile/profile_modules.h"
#include "profile/sites.h"
#include "report/text.h"
#include "report/writer.h"

/* Fields of Profile. */
enum {
    SAMPLE_TYPE = 1,
    SAMPLE = 2,
    STRING = 6,
    DROP_FRAMES = 7,
    TIME_NANOS = 9,
    PERIOD_TYPE = 11,
    PERIOD = 12,
    DEFAULT_SAMPLE_TYPE = 14,
};

enum string { EMPTY, ALLOC_OBJECTS, COUNT, ALLOC_SPACE, BYTES, INUSE_OBJECTS, INUSE_SPACE, SPACE, OURS, STRINGS };

/* pprof leaves out frames that OURS matches, and those that they call. Needed where the library is linked statically. */
static const char *const strings[STRINGS] = {
    "",
    "alloc_objects",
    "count",
    "alloc_space",
    "bytes",
    "inuse_objects",
    "inuse_space",
    "space",
    "(m|c|re|v|pv|aligned_)alloc|(posix_)?memalign|operator new.*|hak_.*|heap_(alloc|calloc|re).*|refill_sampled.*"};

static void put_type(uint32_t field, enum string type, enum string unit)
{
    struct message message = {0};
    message_add(&message, 1, type);
    message_add(&message, 2, unit);
    profile_put_message(field, &message);
}

/* --- locations ------------------------------------------------------------------------------- */

/* pprof wants the address of the call; frames are return addresses. */
static uint64_t location_of(uintptr_t frame)
{
    return frame - 1;
}

/* Sinks the first number of a heap of `count` to its place. */
static void sink(uint64_t *numbers, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && numbers[child + 1] > numbers[child]) child++;
        if (numbers[at] >= numbers[child]) return;
        uint64_t number = numbers[at];
        numbers[at] = numbers[child];
        numbers[child] = number;
    }
}

static void sort(uint64_t *numbers, size_t count)
{
    for (size_t at = count / 2; at > 0; at--) sink(numbers, at - 1, count);
    for (size_t end = count; end > 1; end--) {
        uint64_t largest = numbers[0];
        numbers[0] = numbers[end - 1];
        numbers[end - 1] = largest;
        sink(numbers, 0, end - 1);
    }
}

/* Each address once, though many stacks share it. A location's id is its address. */
static int put_locations(const struct profile_site *first)
{
    size_t count = 0, used = 0;
    for (const struct profile_site *site = first; site != NULL; site = site->next) count += site->count;
    size_t bytes = round_up(count * sizeof(uint64_t) + 1, PAGE_BYTES);
    uint64_t *addresses = os->reserve(NULL, bytes, PAGE_BYTES);
    if (addresses == NULL) return ENOMEM;
    int error = os->commit(addresses, bytes);
    if (error == 0) {
        for (const struct profile_site *site = first; site != NULL; site = site->next)
            for (uint32_t i = 0; i < site->count; i++) addresses[used++] = location_of(site->frames[i]);
        sort(addresses, used);
        for (size_t i = 0; i < used; i++)
            if (i == 0 || addresses[i] != addresses[i - 1]) profile_put_location(addresses[i]);
    }
    os->release(addresses, bytes);
    return error;
}

/* --- samples ---------------------------------------------------------------------------------------------- */

struct figures {
    uint64_t objects, bytes, used_objects, used_bytes;
};

static uint64_t load(const _Atomic(uint64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static struct figures figures_of(const struct profile_site *site)
{
    /* The freed ones are read first, so that they are never more than all. */
    uint64_t freed_objects_16 = load(&site->freed_objects_16), freed_bytes = load(&site->freed_bytes);
    uint64_t objects_16 = load(&site->objects_16), bytes = load(&site->bytes);
    bool is_torn = freed_objects_16 > objects_16 || freed_bytes > bytes;
    return (struct figures){.objects = (objects_16 + 32768) >> 16,
                            .bytes = bytes,
                            .used_objects = is_torn ? 0 : (objects_16 - freed_objects_16 + 32768) >> 16,
                            .used_bytes = is_torn ? 0 : bytes - freed_bytes};
}

static void put_sample(const struct profile_site *site)
{
    struct figures figures = figures_of(site);
    if (figures.objects == 0) return;
    struct message message = {0}, ids = {0}, values = {0};
    for (uint32_t i = 0; i < site->count; i++) message_add_raw(&ids, location_of(site->frames[i]));
    message_add_raw(&values, figures.objects);
    message_add_raw(&values, figures.bytes);
    message_add_raw(&values, figures.used_objects);
    message_add_raw(&values, figures.used_bytes);
    struct message *const parts[] = {&ids, &values};
    for (uint32_t field = 1; field <= 2; field++) {
        const struct message *part = parts[field - 1];
        message_add_raw(&message, field << 3 | 2);
        message_add_raw(&message, part->length);
        memcpy(message.bytes + message.length, part->bytes, part->length);
        message.length += part->length;
    }
    profile_put_message(SAMPLE, &message);
}

static int put_profile(void)
{
    const struct profile_site *first = profile_sites();
    struct timespec now;
    for (uint32_t i = 0; i < STRINGS; i++) profile_put_bytes(STRING, strings[i], strlen(strings[i]));
    put_type(SAMPLE_TYPE, ALLOC_OBJECTS, COUNT);
    put_type(SAMPLE_TYPE, ALLOC_SPACE, BYTES);
    put_type(SAMPLE_TYPE, INUSE_OBJECTS, COUNT);
    put_type(SAMPLE_TYPE, INUSE_SPACE, BYTES);
    put_type(PERIOD_TYPE, SPACE, BYTES);
    profile_put_number(PERIOD, profile_mean_bytes());
    profile_put_number(DROP_FRAMES, OURS);
    profile_put_number(DEFAULT_SAMPLE_TYPE, INUSE_SPACE);
    clock_read(CLOCK_REALTIME, &now);
    if (now.tv_sec != 0) profile_put_number(TIME_NANOS, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    profile_put_mappings(STRINGS);
    int error = put_locations(first);
    for (const struct profile_site *site = first; site != NULL; site = site->next) put_sample(site);
    return error;
}

/* In a job. */
/* files: in a job */
static int write_file(const char *path)
{
    const int fd = call_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return -fd;
    profile_file_begin(fd);
    int error = put_profile();
    const int file_error = profile_file_end(), close_error = -call_close(fd);
    if (error == 0) error = file_error != 0 ? file_error : close_error;
    return error;
}

struct dump {
    const char *path;
    int error;
};

static void write_dump(void *context)
{
    struct dump *dump = context;
    dump->error = write_file(dump->path);
}

/* The file is emptied in the job, since it may be the one that is being written. */
int profile_write(const char *path)
{
    struct dump dump = {.path = path};
    writer_run(write_dump, &dump);
    return dump.error;
}

/* --- numbered files ---------------------------------------------------------------------------------------- */

static char prefix[1024];
static _Atomic(uint32_t) numbers;

bool profile_prefix_set(const char *new_prefix, unsigned long length)
{
    if (length == 0 || length >= sizeof prefix) return false;
    memcpy(prefix, new_prefix, length);
    prefix[length] = '\0';
    return true;
}

void profile_dump_next(const char *why)
{
    if (prefix[0] == '\0') return;
    static char path[sizeof prefix + 64], line[sizeof path + 64]; /* one job at a time */
    const uint32_t number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
    text_string(path, sizeof path, "%s.%d.%u.%s.pb.gz", prefix, call_getpid(), number, why); /* a child's own process */
    int error = write_file(path);
    if (error != 0) {
        struct text text = {.bytes = line, .size = sizeof line};
        text_print(&text, "hakmem: HAKMEM_PROFILE: %s cannot be written: ", path);
        text_add_error(&text, error);
        text_add(&text, "\n");
        os_write_error(text.bytes, text.length);
    }
}
