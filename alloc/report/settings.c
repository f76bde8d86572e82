/* settings.c: see settings.h. Plain system calls and static words only: it runs inside the first malloc. */
#include "report/settings.h"

#include <string.h>
#include <unistd.h>

#include "os/process/file.h"
#include "os/os.h"
#include "report/output.h"
#include "report/text.h"

enum { ENTRY_BYTES_MAX = 64 }; /* a longer entry cannot have a valid value */

static const char prefix[] = "HAKMEM_";

int failfast_level_read = -1;
int failfast_goes_on_read = -1;
int failfast_fill_read = -1;
static int failfast_leaks_read;

struct settings {
    int level;
    int goes_on;
    int fill; /* -1: none */
    int leaks;
};

/* The value of an entry NAME=VALUE; NULL: the entry has another name. */
static const char *value_of(const char *entry, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(entry, name, bytes) == 0 && entry[bytes] == '=' ? entry + bytes + 1 : NULL;
}

/* Takes a number of at most `most`. */
static enum settings_entry take_number(const char *value, uint64_t most, int *setting)
{
    uint64_t number;
    if (!text_digits(&value, &number) || *value != '\0' || number > most) return SETTINGS_BAD;
    *setting = (int)number;
    return SETTINGS_GOOD;
}

static enum settings_entry take(const char *entry, struct settings *settings)
{
    const char *value = value_of(entry, "FAILFAST_LEVEL");
    if (value != NULL) return take_number(value, LEVEL_TRACES, &settings->level);
    value = value_of(entry, "FAILFAST_FILL");
    if (value != NULL) return take_number(value, 255, &settings->fill);
    value = value_of(entry, "FAILFAST_LEAKS");
    if (value != NULL) return take_number(value, 1, &settings->leaks);
    value = value_of(entry, "FAILFAST");
    if (value == NULL) return SETTINGS_OTHER;
    bool report = strcmp(value, "report") == 0;
    if (!report && strcmp(value, "abort") != 0) return SETTINGS_BAD;
    settings->goes_on = report;
    return SETTINGS_GOOD;
}

enum settings_entry failfast_settings_check(const char *entry)
{
    struct settings ignored;
    return take(entry, &ignored);
}

static void take_prefixed(const char *entry, struct settings *settings)
{
    if (strncmp(entry, prefix, sizeof prefix - 1) == 0) take(entry + sizeof prefix - 1, settings);
}

static bool visit_entry(const char *entry, size_t length, void *settings)
{
    if (length < ENTRY_BYTES_MAX) take_prefixed(entry, settings);
    return false;
}

/* Reads the environment that the process began with. False where there is no /proc. */
static bool read_proc(struct settings *settings)
{
    char entry[ENTRY_BYTES_MAX];
    return file_each("/proc/self/environ", '\0', entry, sizeof entry, visit_entry, settings);
}

/* gate: the debug-validation build reads its settings at its first call, before other threads */
int failfast_settings_read(void)
{
    struct settings settings = {LEVEL_STANDARD, 0, -1, 0};
    if (!os_is_privileged() && !read_proc(&settings) && environ != NULL) /* /proc is not mounted */
        for (char **entry = environ; *entry != NULL; entry++) take_prefixed(*entry, &settings);
    /* relaxed: a thread that finds either one unread reads all again. */
    __atomic_store_n(&failfast_goes_on_read, settings.goes_on, __ATOMIC_RELAXED);
    __atomic_store_n(&failfast_leaks_read, settings.leaks, __ATOMIC_RELAXED);
    __atomic_store_n(&failfast_fill_read, settings.fill, __ATOMIC_RELAXED);
    __atomic_store_n(&failfast_level_read, settings.level, __ATOMIC_RELAXED);
    return settings.level;
}

bool failfast_goes_on(void)
{
    if (__atomic_load_n(&failfast_goes_on_read, __ATOMIC_RELAXED) < 0) failfast_settings_read();
    return __atomic_load_n(&failfast_goes_on_read, __ATOMIC_RELAXED) != 0;
}

bool failfast_wants_leaks(void)
{
    return __atomic_load_n(&failfast_leaks_read, __ATOMIC_RELAXED) != 0;
}

void failfast_settings_print(struct output *out)
{
    const int fill = failfast_fill();
    const uint32_t values[] = {failfast_goes_on(), (uint32_t)failfast_level(), failfast_wants_leaks(),
                               fill < 0 ? 256 : (uint32_t)fill};
    const uint32_t *value = values; /* in the order of FAILFAST_OPTIONS */
#define X(name, takes, text) output_print(out, "hakmem: option %-16s %8u  %s (%s)\n", #name, *value++, text, takes);
    FAILFAST_OPTIONS(X)
#undef X
}
