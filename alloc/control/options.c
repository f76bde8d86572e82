/* options.c: see options.h. */
#include "control/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "guard/guard.h"
#include "heap/huge.h"
#include "control/amount.h"
#include "control/stats_write.h"
#include "os/os.h"
#include "profile/profile_write.h"
#include "report/settings.h"
#include "report/text.h"
#include "superslab/backing.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

struct description {
    const char *name;
    uint64_t standard, low, high;
};

static const struct description descriptions[OPTION_COUNT] = {
#define X(name, standard, low, high, text) {#name, standard, low, high},
    OPTIONS(X)
#undef X
};

static const char prefix[] = "HAKMEM_";

static uint64_t values[OPTION_COUNT] = {
#define X(name, standard, low, high, text) standard,
    OPTIONS(X)
#undef X
};

static uint64_t profile_mean_bytes_wanted;

uint64_t option_profile_mean_bytes(void)
{
    return profile_mean_bytes_wanted;
}

uint64_t option_value(enum option option)
{
    return values[option];
}

/* Writes one line in one call; cuts off an entry that is too long. */
static void warn(const char *entry, size_t entry_bytes, const char *what)
{
    enum { WHAT_BYTES = 96 };
    char line[256];
    struct text text = {line, sizeof line - WHAT_BYTES, 0};
    text_add(&text, "hakmem: ");
    text_add_bytes(&text, entry, entry_bytes);
    text.size = sizeof line;
    text_print(&text, ": %s\n", what);
    os_write_error(line, text.length);
}

static void warn_value(const char *entry, bool is_stats, uint64_t low, uint64_t high)
{
    char line[128];
    if (is_stats) text_string(line, sizeof line, "not 0, 1, exit, json:PATH or prom:PATH; the default stands");
    else text_string(line, sizeof line, "not a number from %lu to %lu; the default stands", low, high);
    warn(entry, strlen(entry), line);
}

static bool number(const char *text, uint64_t *value)
{
    return text_digits(&text, value) && *text == '\0';
}

static bool is_name(const char *name, size_t name_bytes, const char *wanted)
{
    return strlen(wanted) == name_bytes && memcmp(name, wanted, name_bytes) == 0;
}

/* --- names that nothing reads ----------------------------------------------------------------------- */

/* Every name that the release library reads and that is not in OPTIONS, without the prefix. */
static const char *const names_read[] = {"LIMIT", "LIMIT_SOFT", "PREWARM", "CRASH_DIR", "PROFILE"};

/* Variables of the suite and the build, which run programs on the library: names that begin so. */
static const char *const foreign_names[] = {"STRESS_", "REPLAY_", "TEST_", "FUZZ_", "MUTANT", "CCACHE"};

static void warn_unknown(const char *entry, const char *name, size_t name_bytes)
{
    if (name_bytes == 0) return;
    for (size_t i = 0; i < sizeof foreign_names / sizeof foreign_names[0]; i++)
        if (strncmp(name, foreign_names[i], strlen(foreign_names[i])) == 0) return;
    /* The release library leaves those of the other build alone. */
    if (VALIDATE && failfast_settings_check(name) != SETTINGS_OTHER) return;
    if (!VALIDATE && strncmp(name, "FAIL", 4) == 0) return;
    for (size_t i = 0; i < sizeof names_read / sizeof names_read[0]; i++)
        if (is_name(name, name_bytes, names_read[i])) return;
    warn(entry, sizeof prefix - 1 + name_bytes, "no such option: see libhakmem(7), or docs/use.md");
}

/* --- amounts of memory ------------------------------------------------------------------------------- */

static size_t prewarm_bytes;

static void prewarm_set(size_t bytes)
{
    static const char entry[] = "HAKMEM_PREWARM";
    if (amount_is_there(bytes, "")) prewarm_bytes = bytes;
    else warn(entry, sizeof entry - 1, "more than the memory that is available; nothing is faulted in");
}

size_t options_prewarm_bytes(void)
{
    return prewarm_bytes;
}

/* As amount_read reads them. Below a page no block can be had: who writes 80 means 80%. */
static const struct {
    const char *name;
    void (*set)(size_t bytes);
    size_t least_bytes;
    const char *refusal;
} amounts[] = {
    {"LIMIT", limit_set, PAGE_BYTES, "not BYTES from 64K on, with K, M, G or T perhaps, nor N%; there is no limit"},
    {"LIMIT_SOFT", limit_soft_set, 0, "not BYTES, with K, M, G or T perhaps, nor N%; there is no limit"},
    {"PREWARM", prewarm_set, 0, "not BYTES, with K, M, G or T perhaps, nor N%; nothing is faulted in"},
};

/* PREFIX[,BYTES]. The last comma counts, where a size follows it. */
static bool profile_read(const char *text)
{
    size_t bytes = 0, length = strlen(text);
    const char *comma = strrchr(text, ',');
    if (comma != NULL) {
        if (strchr(comma, '%') != NULL || !amount_read(comma + 1, "", &bytes)) return false;
        length = (size_t)(comma - text);
    }
    if (!profile_prefix_set(text, length)) return false;
    profile_mean_bytes_wanted = bytes != 0 ? bytes : PROFILE_MEAN_BYTES;
    return true;
}

static void read_entry(const char *entry)
{
    const char *name = entry + sizeof prefix - 1;
    const char *equals = strchr(name, '=');
    if (equals == NULL) return;
    if (VALIDATE && failfast_settings_check(name) == SETTINGS_BAD)
        warn(entry, strlen(entry), "not a value that the option takes; the default stands");
    size_t name_bytes = (size_t)(equals - name);
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        size_t bytes;
        if (!is_name(name, name_bytes, amounts[i].name)) continue;
        if (amount_read(equals + 1, "", &bytes) && bytes >= amounts[i].least_bytes) {
            amounts[i].set(bytes);
        } else {
            warn(entry, strlen(entry), amounts[i].refusal);
        }
        return;
    }
    if (is_name(name, name_bytes, "PROFILE")) {
        if (!profile_read(equals + 1))
            warn(entry, strlen(entry), "not PREFIX or PREFIX,BYTES; there is no heap profile");
        return;
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct description *option = &descriptions[i];
        if (!is_name(name, name_bytes, option->name)) continue;
        uint64_t value;
        if (i == OPTION_STATS && stats_target_set(equals + 1)) {
            values[i] = 1;
        } else if (number(equals + 1, &value) && value >= option->low && value <= option->high) {
            values[i] = value;
        } else {
            warn_value(entry, i == OPTION_STATS, option->low, option->high);
        }
        return;
    }
    warn_unknown(entry, name, name_bytes);
}

void options_read(char *const environment[])
{
    if (environment == NULL) return;
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, prefix, sizeof prefix - 1) == 0) read_entry(*environment);
    pool_set_purge_delay_ms((uint32_t)values[OPTION_PURGE_DELAY_MS]);
    backing_set_huge_policy((enum huge_policy)values[OPTION_HUGE_PAGES]);
    huge_set_delay_ms((uint32_t)values[OPTION_PURGE_DELAY_MS]);
    huge_set_cache_bytes((size_t)values[OPTION_HUGE_CACHE_MIB] << 20);
}
