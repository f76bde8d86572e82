/* leaks.c: see leaks.h.
 *
 * Roots are the calling thread's registers and stack, and all writable mappings but the heap's own and this library's; also
 * what a module had writable before the dynamic linker protected it. A word that is an address in a live block of the
 * program's, anywhere in it, makes the block reachable, and the block's own words are looked at next. A reachable block has
 * the state SEEN in its frame until the end. */
#include "debug/exit/leaks.h"

#include <string.h>

#include "base/bits.h"
#include "debug/frame_layout.h"
#include "debug/lookup.h"
#include "debug/exit/sweep.h"
#include "debug/trace.h"
#include "os/maps.h"
#include "os/os.h"
#include "os/peek.h"
#include "report/failfast.h"
#include "report/text.h"
#include "superslab/pagemap.h"

enum { SITES_MAX = 64, SITES_SHOWN = 8, ROOT_BYTES = 4096, RELRO_BYTES_MAX = 1 << 20 };

/* The bounds of this library in memory. */
extern const char __ehdr_start[] HAK_HIDDEN;
extern const char _end[] HAK_HIDDEN;

struct reached {
    uintptr_t word; /* of the block: where it starts */
    size_t bytes;
};

/* The calling thread's work; it is the only thread. */
static struct {
    struct reached *todo; /* blocks whose words have not been looked at */
    size_t count, count_max;
    uintptr_t stack; /* the stack's words begin here */
    struct maps_entry last; /* the mapping below */
} scan;

static void count_block(char *start, void *count)
{
    struct framed framed;
    if (sweep_find(start, &framed)) ++*(size_t *)count;
}

/* --- what is reachable ------------------------------------------------------------------------------------------ */

static void look_at(uintptr_t word)
{
    struct lookup at = heap_lookup((const void *)word);
    struct framed framed;
    if (at.start == NULL || !at.live || !sweep_find(at.start, &framed)) return;
    size_t offset = word - (uintptr_t)framed.user;
    if (offset >= framed.word.size_bytes && offset != 0) return;
    if (scan.count == scan.count_max || !frame_state_change(&framed, FRAME_LIVE, FRAME_SEEN)) return;
    scan.todo[scan.count++] = (struct reached){(uintptr_t)framed.user, framed.word.size_bytes};
}

static void look_at_words(const uintptr_t *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++) look_at(words[i]);
}

/* Page by page, since the program may have protected pages of its block, as guards of a stack. */
static void follow_large(struct reached block)
{
    static uintptr_t words[ROOT_BYTES / sizeof(uintptr_t)];
    const uintptr_t end = block.word + block.bytes;
    for (uintptr_t at = block.word, next; at < end; at = next) {
        next = (at & -(uintptr_t)ROOT_BYTES) + ROOT_BYTES;
        size_t bytes = (next < end ? next : end) - at;
        if (os_peek((const void *)at, words, bytes)) look_at_words(words, bytes);
    }
}

static void follow_all(void)
{
    while (scan.count > 0) {
        struct reached block = scan.todo[--scan.count];
        if (block.bytes < ROOT_BYTES) look_at_words((const uintptr_t *)block.word, block.bytes);
        else follow_large(block);
    }
}

/* Reads a copy, since parts of a mapping may lie beyond its file's end. */
static void look_at_range(uintptr_t low, uintptr_t high)
{
    uintptr_t words[ROOT_BYTES / sizeof(uintptr_t)];
    for (uintptr_t at = low; at < high; at += sizeof words) {
        if (heap_lookup((const void *)at).kind != RECORD_KIND_none || pagemap_descriptor((const void *)at) != NULL)
            continue;
        if (at - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start)) continue;
        size_t bytes = high - at < sizeof words ? high - at : sizeof words;
        if (!os_peek((const void *)at, words, bytes)) continue;
        look_at_words(words, bytes);
        follow_all();
    }
}

static bool visit_mapping(const struct maps_entry *entry, void *unused)
{
    (void)unused;
    bool is_stack = scan.stack >= entry->low && scan.stack < entry->high;
    const struct maps_entry *below = &scan.last;
    bool was_written = entry->is_file && below->is_file && !below->is_writable && !below->is_code &&
                       below->high == entry->low && below->high - below->low <= RELRO_BYTES_MAX &&
                       strcmp(below->name, entry->name) == 0;
    if (entry->is_writable && was_written) look_at_range(below->low, below->high);
    if (entry->is_writable) look_at_range(is_stack ? scan.stack & -(uintptr_t)ROOT_BYTES : entry->low, entry->high);
    scan.last = *entry;
    return false;
}

static HAK_NOINLINE bool mark(void)
{
    void *registers[8];
    __builtin_unwind_init(); /* registers that calls keep are on the stack from here on */
    scan.stack = (uintptr_t)registers;
    scan.last = (struct maps_entry){.low = 0};
    return maps_scan(visit_mapping, NULL);
}

/* --- what is not ------------------------------------------------------------------------------------------------ */

struct site {
    struct failfast_event allocated;
    size_t blocks, bytes;
    const void *first;
};

static struct site sites[SITES_MAX];
static uint32_t site_count;

/* The last site takes all that come when there is no room for more. */
static struct site *site_of(const struct failfast_event *allocated)
{
    for (uint32_t i = 0; i < site_count; i++)
        if (sites[i].allocated.count == allocated->count &&
            memcmp(sites[i].allocated.frames, allocated->frames, allocated->count * sizeof *allocated->frames) == 0)
            return &sites[i];
    if (site_count == SITES_MAX) return &sites[SITES_MAX - 1];
    sites[site_count] = (struct site){.allocated = *allocated};
    return &sites[site_count++];
}

static void collect(char *start, void *unused)
{
    (void)unused;
    struct failfast_event allocated = {.count = 0}, freed;
    struct lookup at = heap_lookup(start);
    struct framed framed;
    if (at.start != start || !at.live || !frame_read_copy(&at, &framed)) return;
    if (frame_state_change(&framed, FRAME_SEEN, FRAME_LIVE) || !sweep_find(start, &framed)) return;
    trace_find(framed.user, &allocated, &freed);
    struct site *site = site_of(&allocated);
    if (site->blocks++ == 0) site->first = framed.user;
    site->bytes += framed.word.size_bytes;
}

struct sum {
    size_t blocks, bytes;
};

static struct sum all_sites(void)
{
    struct sum all = {0};
    for (uint32_t i = 0; i < site_count; i++) {
        all.blocks += sites[i].blocks;
        all.bytes += sites[i].bytes;
    }
    return all;
}

static void add_blocks(struct text *text, size_t blocks, size_t bytes)
{
    text_print(text, "%zu block%s, %zu bytes", blocks, blocks == 1 ? "" : "s", bytes);
}

/* Rounded down. Of sums so large that the product is none, a hundredth is exact enough. */
static size_t percent_of(size_t part, size_t all)
{
    return part <= SIZE_MAX / 100 ? part * 100 / all : part / (all / 100);
}

/* With the share of the bytes, if there is more than one site. */
static void add_sum(struct text *text, const struct site *site)
{
    add_blocks(text, site->blocks, site->bytes);
    size_t all = all_sites().bytes;
    if (site_count > 1 && all > 0) text_print(text, " (%zu%%)", percent_of(site->bytes, all));
    text_add(text, ", to which nothing points");
}

/* The largest first. */
static void sort_sites(void)
{
    for (uint32_t i = 1; i < site_count; i++) {
        struct site site = sites[i];
        uint32_t at = i;
        for (; at > 0 && sites[at - 1].bytes < site.bytes; at--) sites[at] = sites[at - 1];
        sites[at] = site;
    }
}

static void write_site(const struct site *site)
{
    char bytes[4096];
    struct text text = {bytes, sizeof bytes, 0};
    const struct failfast_event *event = &site->allocated;
    text_add(&text, "hakmem: leak: ");
    add_sum(&text, site);
    text_add(&text, event->count > 0 ? ", allocated at\n" : "\n");
    trace_add_places(&text, event);
    size_t before = text.length;
    text_add(&text, "hakmem:   next: ");
    if (trace_add_command(&text, &event, 1)) text_add(&text, "\n");
    else text.length = before;
    os_write_error(text.bytes, text.length);
}

/* If there is one site only, its own report has its sum. */
static void write_all(void)
{
    char bytes[256];
    struct text text = {bytes, sizeof bytes, 0};
    struct sum all = all_sites();
    text_add(&text, "hakmem: leak: ");
    add_blocks(&text, all.blocks, all.bytes);
    text_print(&text, ", to which nothing points, allocated at %u places%s", site_count,
               site_count == SITES_MAX ? " or more" : "");
    if (site_count > SITES_SHOWN) text_add(&text, ", of which those with most bytes follow");
    text_add(&text, "; the largest is the last\n");
    os_write_error(text.bytes, text.length);
}

void leaks_report(void)
{
    static const char no_memory[] =
        "hakmem: HAKMEM_FAILFAST_LEAKS: no memory, or no /proc: leaks were not looked for\n";
    sweep_each(count_block, &scan.count_max);
    size_t bytes = round_up((scan.count_max + 1) * sizeof *scan.todo, PAGE_BYTES);
    scan.todo = os->map(NULL, bytes, PAGE_BYTES);
    bool is_marked = scan.todo != NULL && mark();
    if (is_marked) sweep_each(collect, NULL);
    if (scan.todo != NULL) os->release(scan.todo, bytes);
    if (!is_marked) os_write_error(no_memory, sizeof no_memory - 1);
    if (site_count == 0) return;
    sort_sites();
    if (site_count > 1) write_all();
    for (uint32_t i = 1; i < site_count && i < SITES_SHOWN; i++) write_site(&sites[i]);
    char words[96];
    struct text detail = {words, sizeof words, 0};
    add_sum(&detail, &sites[0]);
    text_add_bytes(&detail, "", 1);
    failfast_refused(FAILFAST_leak, sites[0].first, detail.bytes);
}
