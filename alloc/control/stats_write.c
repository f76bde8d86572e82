/* stats_write.c: see stats_write.h. Allocates nothing, and uses no stdio but vsnprintf. */
#include "control/stats_write.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cache/credits.h"
#include "hakmem/hakmem.h"
#include "control/background.h"
#include "heap/huge.h"
#include "control/options.h"
#include "heap/own.h"
#include "control/stats.h"
#include "os/call.h"
#include "os/libc.h"
#include "os/os.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "report/first_error.h"
#include "report/output.h"
#include "report/process.h"
#include "report/text.h"
#include "report/writer.h"
#include "slab/owner.h"
#include "slab/slab.h"
#include "superslab/backing.h"
#include "superslab/limit.h"
#include "superslab/pool.h"
#include "superslab/purge.h"

static_assert((int)CLASS_COUNT <= (int)HAKMEM_CLASSES_MAX, "each class has its figures");
static_assert(offsetof(struct hak_figures, classes) == 42 * sizeof(uint64_t), "new figures take reserved places");

/* --- the figures ------------------------------------------------------------------------------------- */

static void count_slab(struct slab *slab, uint32_t class_index, void *context)
{
    struct hak_class_figures *of_class = &((struct hak_figures *)context)->classes[class_index - 1];
    of_class->slab_bytes += (uint64_t)sizeclass_slab_pages(class_index) * PAGE_BYTES;
    of_class->used_blocks += atomic_load_explicit(&slab->used_count, memory_order_relaxed);
}

static uint64_t count_owners(struct hak_figures *out)
{
    uint64_t carved_bytes = 0;
    for (struct owner *owner = NULL; (owner = owner_next(owner)) != NULL;) {
        carved_bytes += atomic_load_explicit(&owner->carved_bytes, memory_order_relaxed);
        out->idle_bytes += owner_idle_bytes(owner);
#define X(name) out->name += atomic_load_explicit(&owner->events[OWNER_EVENT_##name], memory_order_relaxed);
        OWNER_EVENTS(X)
#undef X
    }
    return carved_bytes;
}

/* What bins have learned of a class, and what the heap profile knows of it. */
static void count_class(struct hak_figures *out, uint32_t class_index)
{
    uint32_t index = class_index - 1, credit = credits_highest(class_index);
    struct profile_class_figures profile = profile_class_figures(class_index);
    out->classes[index].block_bytes = sizeclass_bytes(class_index);
    out->class_credits[index] = credit;
    out->classes_grown += credit > sizeclass_credit(class_index);
    out->class_live_blocks[index] = profile.live_blocks;
    out->class_wasted_bytes[index] = profile.wasted_bytes;
    out->wasted_bytes += profile.wasted_bytes;
}

static uint64_t limit_or_0(size_t limit_bytes)
{
    return limit_bytes != SIZE_MAX ? limit_bytes : 0;
}

static void collect(struct hak_figures *out)
{
    struct hak_stats stats;
    stats_get(&stats);
    for (uint32_t class_index = 1; class_index < CLASS_COUNT; class_index++) count_class(out, class_index);
    slab_for_each(count_slab, out);
    struct pool_figures pool = pool_figures();
    uint64_t carved_bytes = count_owners(out) + own_add_figures(out);
    out->mapped_bytes = stats.reserved_bytes;
    out->committed_bytes = limit_committed_bytes();
    out->committed_peak_bytes = limit_committed_peak_bytes();
    out->resident_bytes = carved_bytes + profile_slot_bytes() + stats.run_bytes + stats.dirty_bytes + stats.huge_bytes +
                          stats.huge_cached_bytes;
    out->used_bytes = stats.small_bytes + stats.run_bytes + stats.huge_bytes;
    out->cached_bytes = stats.small_cached_bytes;
    out->dirty_bytes = stats.dirty_bytes;
    out->huge_cached_bytes = stats.huge_cached_bytes;
    out->learned_bytes = (uint64_t)pool.keep_pages * PAGE_BYTES;
    out->huge_learned_bytes = huge_learned_bytes();
    out->profile_mean_bytes = profile_mean_bytes();
    out->limit_bytes = limit_or_0(limit_get());
    out->limit_soft_bytes = limit_or_0(limit_soft_get());
    out->heaps = stats.heap_count;
    out->orphans = stats.orphan_count;
    out->threads = stats.heap_count > stats.orphan_count ? stats.heap_count - stats.orphan_count : 0;
    out->superslabs = pool.superslab_count;
    out->superslabs_made = pool.made_count;
    out->superslabs_released = pool.made_count > pool.superslab_count ? pool.made_count - pool.superslab_count : 0;
    out->purged_bytes = (uint64_t)pool.purged_pages * PAGE_BYTES;
    out->background_rounds = background_rounds();
    out->superslabs_collapsed = backing_collapsed();
}

size_t hak_figures_get(struct hak_figures *out, size_t size_bytes)
{
    struct hak_figures all = {0};
    collect(&all);
    size_t known_bytes = size_bytes < sizeof all ? size_bytes : sizeof all;
    memcpy(out, &all, known_bytes);
    memset((char *)out + known_bytes, 0, size_bytes - known_bytes);
    return sizeof all;
}

/* --- writing them ------------------------------------------------------------------------------------- */

/* What tells the samples of several processes apart, for Prometheus. */
struct labels {
    char text[PROCESS_NAME_BYTES + 48]; /* the brace is still open */
};

static struct labels labels_make(void)
{
    struct labels labels;
    char name[PROCESS_NAME_BYTES];
    process_name(name);
    snprintf(labels.text, sizeof labels.text, "{program=\"%s\",process=\"%d\"", name, process_number());
    return labels;
}

static void print_family(struct output *out, const char *name, const char *end, const char *meaning, const char *kind)
{
    output_print(out, "# HELP hakmem_%s%s %s\n", name, end, meaning);
    output_print(out, "# TYPE hakmem_%s%s %s\n", name, end, kind);
}

/* Which process, and when: a reader can tell the numbers of several processes apart. */
static void print_head(struct output *out, bool is_json, const struct labels *labels)
{
    const unsigned long long age_ms = process_age_ms();
    char name[PROCESS_NAME_BYTES], time[PROCESS_TIME_BYTES];
    if (is_json) {
        process_name(name);
        process_time(time);
        output_print(out, "{\n  \"program\": \"%s\",\n  \"process\": %d,\n", name, process_number());
        output_print(out, "  \"version\": \"" HAKMEM_VERSION "\",\n  \"time\": \"%s\",\n  \"age_ms\": %llu,\n", time,
                     age_ms);
        return;
    }
    print_family(out, "info", "", "the process, by labels", "gauge");
    output_print(out, "hakmem_info%s,version=\"" HAKMEM_VERSION "\"} 1\n", labels->text);
    print_family(out, "age_seconds", "", "since the process began", "gauge");
    output_print(out, "hakmem_age_seconds%s} %llu.%03llu\n", labels->text, age_ms / 1000, age_ms % 1000);
}

/* labels: NULL for JSON. */
static void print_figure(struct output *out, const struct labels *labels, const char *name, const char *kind,
                         const char *meaning, unsigned long long value)
{
    if (labels == NULL) {
        output_print(out, "  \"%s\": %llu,\n", name, value);
        return;
    }
    const char *end = strcmp(kind, "counter") == 0 ? "_total" : ""; /* as the format wants it */
    print_family(out, name, end, meaning, kind);
    output_print(out, "hakmem_%s%s%s} %llu\n", name, end, labels->text, value);
}

/* The figures of each class. The last ones are written only if there was a heap profile. */
static const struct {
    const char *name, *meaning;
} class_figures[] = {
    {"slab_bytes", "pages of the class's slabs"},
    {"used_blocks", "live, or in a cache"},
    {"credit", "frees that a bin takes in the heap that has learned most"},
    {"live_blocks", "estimate of the heap profile"},
    {"wasted_bytes", "what rounding up adds to live blocks, estimate of the heap profile"},
};
enum { CLASS_FIGURES = 5, CLASS_FIGURES_EXACT = 3 };

/* A sampled block is apart from its class's slabs. */
static bool class_is_used(const struct hak_figures *figures, uint32_t index)
{
    return figures->classes[index].slab_bytes != 0 || figures->class_live_blocks[index] != 0;
}

static unsigned long long class_figure(const struct hak_figures *figures, uint32_t index, uint32_t which)
{
    return which == 0   ? figures->classes[index].slab_bytes
           : which == 1 ? figures->classes[index].used_blocks
           : which == 2 ? figures->class_credits[index]
           : which == 3 ? figures->class_live_blocks[index]
                        : figures->class_wasted_bytes[index];
}

/* Blocks for larger alignments have classes of their own, of the same sizes. */
static bool class_is_aligned(uint32_t index)
{
    return index + 1 >= CLASS_ALIGNED_FIRST;
}

/* One figure of all classes, for Prometheus: a family's samples must follow each other. */
static void print_class_family(struct output *out, const struct labels *labels, const struct hak_figures *figures,
                               uint32_t which)
{
    const char *name = class_figures[which].name;
    print_family(out, "class_", name, class_figures[which].meaning, "gauge");
    for (uint32_t i = 0; i < CLASS_COUNT - 1; i++)
        if (class_is_used(figures, i))
            output_print(out, "hakmem_class_%s%s,bytes=\"%llu\",aligned=\"%d\"} %llu\n", name, labels->text,
                         (unsigned long long)figures->classes[i].block_bytes, class_is_aligned(i),
                         class_figure(figures, i, which));
}

static void print_classes(struct output *out, const struct labels *labels, const struct hak_figures *figures)
{
    const uint32_t known = figures->profile_mean_bytes != 0 ? CLASS_FIGURES : CLASS_FIGURES_EXACT;
    for (uint32_t which = 0; labels != NULL && which < known; which++) print_class_family(out, labels, figures, which);
    if (labels != NULL) return;
    const char *before = "\n";
    output_print(out, "  \"classes\": [");
    for (uint32_t i = 0; i < CLASS_COUNT - 1; i++) {
        if (!class_is_used(figures, i)) continue;
        output_print(out, "%s    {\"block_bytes\": %llu, \"aligned\": %s", before,
                     (unsigned long long)figures->classes[i].block_bytes, class_is_aligned(i) ? "true" : "false");
        for (uint32_t which = 0; which < known; which++)
            output_print(out, ", \"%s\": %llu", class_figures[which].name, class_figure(figures, i, which));
        output_print(out, "}");
        before = ",\n";
    }
    output_print(out, "\n  ]\n}\n");
}

/* Not inlined: the text is written on small stacks too, and needs no struct of this size. */
static HAK_NOINLINE void write_figures(struct output *out, bool is_json)
{
    struct hak_figures figures = {0};
    const struct labels of_process = labels_make(), *labels = is_json ? NULL : &of_process;
    collect(&figures);
    print_head(out, is_json, labels);
#define X(member, kind, meaning) print_figure(out, labels, #member, #kind, meaning, figures.member);
    HAKMEM_FIGURES(X)
#undef X
    print_classes(out, labels, &figures);
}

int stats_write(int fd, int format)
{
    if (format < HAKMEM_STATS_TEXT || format > HAKMEM_STATS_PROMETHEUS) return EINVAL;
    int saved = errno;
    struct output out;
    output_begin(&out, NULL, fd);
    if (format == HAKMEM_STATS_TEXT) stats_print(&out);
    else write_figures(&out, format == HAKMEM_STATS_JSON);
    output_flush(&out);
    errno = saved;
    return out.error;
}

/* --- at exit, at a signal ------------------------------------------------------------------------------- */

static char target_path[1024]; /* "": standard error */
static char target_name[4 * sizeof target_path]; /* with numbers and names; in a job */
static int target_format;

bool stats_target_set(const char *target)
{
    if (strcmp(target, "1") == 0 || strcmp(target, "exit") == 0) return true;
    bool is_json = strncmp(target, "json:", 5) == 0, is_prom = strncmp(target, "prom:", 5) == 0;
    size_t length = strlen(target);
    if (!(is_json || is_prom) || length == 5 || length - 5 >= sizeof target_path) return false;
    memcpy(target_path, target + 5, length - 5 + 1);
    target_format = is_json ? HAKMEM_STATS_JSON : HAKMEM_STATS_PROMETHEUS;
    return true;
}

static void target_name_make(void)
{
    struct text text = {target_name, sizeof target_name - 1, 0};
    char name[PROCESS_NAME_BYTES];
    process_name(name);
    for (const char *at = target_path; *at != '\0'; at++) {
        if (at[0] == '%' && (at[1] == 'p' || at[1] == 'e')) {
            if (at[1] == 'p') text_print(&text, "%d", process_number());
            else text_add(&text, name);
            at++;
        } else {
            text_add_bytes(&text, at, 1);
        }
    }
    target_name[text.length] = '\0';
}

static void say_refused(int error)
{
    static char line[sizeof target_name + 128];
    struct text text = {line, sizeof line - 1, 0};
    text_print(&text, "hakmem: HAKMEM_STATS: %s cannot be written: ", target_name);
    text_add_error(&text, error);
    line[text.length++] = '\n';
    os_write_all(first_error_fd(), line, text.length); /* there is nobody to tell of an error */
}

/* files: in a job (report/writer.h) */
void stats_write_to_target(void)
{
    bool is_file = target_path[0] != '\0';
    if (is_file) target_name_make();
    int fd = is_file ? call_open(target_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : first_error_fd();
    int error = fd < 0 ? -fd : stats_write(fd, target_format);
    if (error != 0 && is_file) say_refused(error);
    if (is_file && fd >= 0) call_close(fd);
}

static void write_last(void *unused)
{
    (void)unused;
    stats_write_to_target();
}

void hak_private_stats_end(void)
{
    if (option_value(OPTION_STATS) == 0 || call_getpid() != process_number()) return;
    process_memory_keep(); /* the copy has a peak of its own */
    writer_run_in_copy(write_last, NULL);
}

static int stats_signal, profile_signal;

static void on_signal(int signal)
{
    uint32_t due = (signal == stats_signal ? STATS_DUE : 0u) | (signal == profile_signal ? PROFILE_DUE : 0u);
    pool_tick_force();
    writer_want(due);
}

/* The instruction that raised it would raise it again after the handler, for ever. */
static bool is_of_a_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGTRAP ||
           signal == SIGSYS;
}

bool stats_signal_start(int signal, uint32_t what)
{
    if (is_of_a_fault(signal)) return false;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    int saved = errno;
    *(what == STATS_DUE ? &stats_signal : &profile_signal) = signal;
    bool is_caught = sigaction(signal, &action, NULL) == 0;
    errno = saved;
    return is_caught;
}

static void write_taken(void *unused)
{
    (void)unused;
    uint32_t due = writer_take(STATS_DUE | PROFILE_DUE | STEP_DUE);
    if ((due & STATS_DUE) != 0) stats_write_to_target();
    if ((due & PROFILE_DUE) != 0) profile_dump_next("signal");
    if ((due & STEP_DUE) != 0) profile_dump_next("step");
}

static bool any_file_due(void)
{
    return (atomic_load_explicit(&writer_due, memory_order_relaxed) & (STATS_DUE | PROFILE_DUE | STEP_DUE)) != 0;
}

/* gate: a job on a stack of its own, in a process without the library's thread */
void stats_write_due(void)
{
    /* Again, if a thread that found this one writing has left something. */
    while (any_file_due())
        if (!writer_try(write_taken, NULL)) return;
}

void stats_write_due_waiting(void)
{
    while (any_file_due()) writer_run(write_taken, NULL);
}
