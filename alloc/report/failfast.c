/* failfast.c: the report of a failed check. Not a part of the release library. */
#include "report/failfast.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hooks.h"
#include "base/sync_point.h"
#include "os/call.h"
#include "os/os.h"
#include "os/peek.h"
#include "report/settings.h"
#include "report/text.h"

enum { KEPT_MAX = 4 };

static const char *const names[] = {
#define X(name, text) #name,
    FAILFAST_KINDS(X)
#undef X
};

static const char *const texts[] = {
#define X(name, text) text,
    FAILFAST_KINDS(X)
#undef X
};

/* The kernel's id of the thread that uses the one static buffer of reports; 0: none. The buffer is not on the stack,
 * since a thread may have a small one. */
static _Atomic(int32_t) buffer_thread;

/* unreached: by chance: two threads report at one time */
static void buffer_take(void)
{
    int32_t self = call_gettid(), holder = 0;
    /* acquire: pairs with the release in report. */
    while (!atomic_compare_exchange_weak_explicit(&buffer_thread, &holder, self, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (holder == self) abort(); /* a signal came during this thread's report, and its handler failed a check too */
        /* The holder may have been writing when this process was forked: it does not exist here, so take the buffer
         * from it. */
        if (call_tgkill(call_getpid(), holder, 0) != -ESRCH) holder = 0;
        if (sync_points_are_hooked()) sync_point("lock_wait");
        else call_sched_yield(); /* until the other thread has written its report */
    }
}

/* --- for the crash handler -------------------------------------------------------------------------- */

static HAK_TLS const char *call_now; /* NULL: no call has been set */

const char *failfast_call_set(const char *call)
{
    const char *before = HAK_MINE(call_now);
    HAK_MINE(call_now) = call;
    return before;
}

/* What ended a thread. The first KEPT_MAX threads that a failed check ends take one each, for good; only that thread
 * writes and reads it. A few suffice, since a process seldom survives the first. */
static struct kept {
    _Atomic(int32_t) thread; /* 0: free */
    bool is_set;
    struct failfast_find find;
    size_t report_bytes;
    char report[FAILFAST_REPORT_BYTES];
} kept[KEPT_MAX];

static struct kept *kept_mine(void)
{
    int32_t self = call_gettid();
    for (int i = 0; i < KEPT_MAX; i++) /* relaxed: a thread looks for the id that it wrote itself */
        if (atomic_load_explicit(&kept[i].thread, memory_order_relaxed) == self) return &kept[i];
    return NULL;
}

static struct kept *kept_take(void)
{
    struct kept *mine = kept_mine();
    for (int i = 0; i < KEPT_MAX && mine == NULL; i++) {
        int32_t nobody = 0;
        /* relaxed: no thread has written to it before. */
        if (atomic_compare_exchange_strong_explicit(&kept[i].thread, &nobody, call_gettid(), memory_order_relaxed,
                                                    memory_order_relaxed))
            mine = &kept[i];
    }
    return mine;
}

static void keep(const struct failfast_find *find, const struct text *report)
{
    struct kept *mine = kept_take();
    if (mine == NULL) return;
    mine->find = *find;
    mine->report_bytes = report->length;
    memcpy(mine->report, report->bytes, report->length);
    mine->is_set = true;
}

const struct failfast_find *failfast_kept(const char **report, size_t *report_bytes)
{
    const struct kept *mine = kept_mine();
    if (mine == NULL || !mine->is_set) return NULL;
    *report = mine->report;
    *report_bytes = mine->report_bytes;
    return &mine->find;
}

void failfast_kept_forget(void)
{
    struct kept *mine = kept_mine();
    if (mine != NULL) mine->is_set = false;
}

/* --- the report ----------------------------------------------------------------------------------------------- */

/* gate: a report of the debug-validation build */
static HAK_COLD HAK_ALIGNS_STACK void report(enum failfast_kind kind, struct failfast_find *find, const char *detail,
                                             bool ends)
{
    static char buffer[FAILFAST_REPORT_BYTES];
    struct text text = {buffer, sizeof buffer, 0};
    find->name = names[kind];
    find->text = texts[kind];
    find->call = HAK_MINE(call_now) == NULL ? "" : HAK_MINE(call_now);
    if (find->bad_address != NULL) {
        bool readable;
        find->value = os_peek_word((const void *)((uintptr_t)find->bad_address & ~(uintptr_t)7), &readable);
    }
    buffer_take();
    text_print(&text, "hakmem: failfast: %s: %s\nhakmem:   address %p", names[kind], texts[kind], find->address);
    if (detail != NULL) text_print(&text, "\nhakmem:   %s", detail);
    text_add(&text, "\nhakmem:   found by thread ");
    /* relaxed: a constant; see explain_start. */
    failfast_explain_fn *explain = __atomic_load_n(&hooks.failfast_explain, __ATOMIC_RELAXED);
    if (explain != NULL) explain(&text, kind, find);
    else text_print(&text, "%d\n", call_gettid());
    if (failfast_goes_on())
        text_add(&text, ends ? "hakmem:   cannot continue from here: the process ends\n"
                             : "hakmem:   the program continues, and a bad call does nothing\n");
    os_write_error(text.bytes, text.length);
    if (ends) keep(find, &text);
    /* release: pairs with the acquire in buffer_take. */
    atomic_store_explicit(&buffer_thread, 0, memory_order_release);
}

static HAK_NORETURN HAK_ALIGNS_STACK void end(enum failfast_kind kind, struct failfast_find *find, const char *detail)
{
    report(kind, find, detail, true);
    abort();
}

static bool refuse(enum failfast_kind kind, struct failfast_find *find, const char *detail)
{
    if (!failfast_goes_on()) end(kind, find, detail);
    int saved = errno;
    report(kind, find, detail, false);
    errno = saved;
    return false;
}

HAK_NORETURN void failfast(enum failfast_kind kind, const void *address, const char *detail)
{
    failfast_link(kind, address, detail, NULL);
}

HAK_NORETURN void failfast_link(enum failfast_kind kind, const void *address, const char *detail, const void *link)
{
    struct failfast_find find = {.address = address, .bad_address = link};
    end(kind, &find, detail);
}

bool failfast_refused(enum failfast_kind kind, const void *address, const char *detail)
{
    return failfast_refused_bytes(kind, address, detail, (struct failfast_bytes){.first = NULL});
}

bool failfast_refused_bytes(enum failfast_kind kind, const void *address, const char *detail,
                            struct failfast_bytes bytes)
{
    struct failfast_find find = {.address = address, .bad_address = bytes.first, .bad_bytes = bytes.count};
    return refuse(kind, &find, detail);
}
