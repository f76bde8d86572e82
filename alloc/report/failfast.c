/* failfast.c: the report of a failed check. Not a part of the release library. */
#include "report/failfast.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "report/settings.h"
#include "report/text.h"

enum { REPORT_BYTES = 8192 };

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

failfast_explain_fn *failfast_explain;

/* The report is built in one static buffer: a thread may have a small stack. Who holds it, by the kernel's id. */
static _Atomic(int32_t) buffer_thread;

static void buffer_take(void)
{
    int32_t self = (int32_t)syscall(SYS_gettid), holder = 0;
    /* acquire: pairs with the release in report. */
    while (!atomic_compare_exchange_weak_explicit(&buffer_thread, &holder, self, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (holder == self) abort(); /* a signal has come in the midst of a report, and its handler misuses too */
        /* A thread that wrote when this process was forked is not here to end it. */
        if (syscall(SYS_tgkill, getpid(), holder, 0) == 0 || errno != ESRCH) holder = 0;
        sched_yield(); /* for as long as the other thread writes its report */
    }
}

static HAK_COLD void report(enum failfast_kind kind, const void *address, const char *detail, const char *end)
{
    static char buffer[REPORT_BYTES];
    struct text text = {buffer, sizeof buffer, 0};
    buffer_take();
    text_add(&text, "hakmem: failfast: ");
    text_add(&text, names[kind]);
    text_add(&text, ": ");
    text_add(&text, texts[kind]);
    text_add(&text, "\nhakmem:   address ");
    text_add_address(&text, address);
    if (detail != NULL) {
        text_add(&text, "\nhakmem:   ");
        text_add(&text, detail);
    }
    text_add(&text, "\nhakmem:   found by thread ");
    text_add_number(&text, (uint64_t)syscall(SYS_gettid));
    text_add(&text, "\n");
    /* relaxed: a constant, see explain_start. */
    failfast_explain_fn *explain = __atomic_load_n(&failfast_explain, __ATOMIC_RELAXED);
    if (explain != NULL) explain(&text, kind, address);
    text_add(&text, end);
    os_write_error(text.bytes, text.length);
    /* release: pairs with the acquire in buffer_take. */
    atomic_store_explicit(&buffer_thread, 0, memory_order_release);
}

HAK_NORETURN void failfast(enum failfast_kind kind, const void *address, const char *detail)
{
    report(kind, address, detail,
           failfast_goes_on() ? "hakmem:   cannot go on from here: the process ends\n" : "");
    abort();
}

bool failfast_refused(enum failfast_kind kind, const void *address, const char *detail)
{
    if (!failfast_goes_on()) failfast(kind, address, detail);
    int saved = errno;
    report(kind, address, detail, "hakmem:   the program goes on, and a bad call does nothing\n");
    errno = saved;
    return false;
}
