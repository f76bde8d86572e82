/* crash.c: the crash handler of hakmem/crash.h.
 *
 * One thread at a time writes a record (crash_writer.h). Threads that crash meanwhile wait for it, but not for ever, and
 * then continue without a record of their own. Our signals stay unblocked while the handler runs, so that a fault
 * in the handler comes back here: inside a step of crash_try it only ends that step, elsewhere it ends the process. All
 * memory is static and nothing takes a lock, since the crash may have happened anywhere. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hooks.h"
#include "cache/thread.h"
#include "crash/crash.h"
#include "crash/crash_record.h"
#include "crash/crash_stack.h"
#include "crash/crash_try.h"
#include "crash/crash_writer.h"
#include "guard/guard.h"
#include "guard/guard_report.h"
#include "hakmem/crash.h"
#include "os/call.h"
#include "os/libc.h"
#include "os/os.h"
#include "report/failfast.h"
#include "report/text.h"

enum {
    SIGNALS = 5,
    DIRECTORY_BYTES_MAX = 2048,
    PATH_BYTES_MAX = DIRECTORY_BYTES_MAX + 80, /* with "/hakmem-PID-TID-N.crash.tmp" */
    LINE_BYTES_MAX = 2 * PATH_BYTES_MAX + 256,
    RECORDS_MAX = 16, /* of one process, so that one that survives its crashes does not fill the disk */
    NUMBERS_MAX = 1000, /* names tried to find a free one */
};

static const int signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
/* There are two handlers, which do the same. Where the program has put one of its own over ours, that one stays when ours
 * is removed, and may go on calling ours. The next installation then puts the other of the two on top: ours calls the one
 * that it has replaced, so the same one would call itself, by way of the program's, for ever. */
enum { HANDLERS = 2 };
static struct {
    struct sigaction previous[HANDLERS]; /* what each has replaced */
    bool is_below[HANDLERS]; /* it was removed, and may still be called */
    int last; /* the one that was installed last */
} of_signal[SIGNALS];
static bool installed;
static char directory[DIRECTORY_BYTES_MAX + 1]; /* empty: no records, only reports of sampled blocks */
static unsigned records; /* number written; only the writer uses it */

/* --- text ------------------------------------------------------------------------------------------------- */

static void say(struct text *text)
{
    text_add(text, "\n");
    os_write_error(text->bytes, text->length);
}

/* --- the file --------------------------------------------------------------------------------------------- */

static void path_make(char path[PATH_BYTES_MAX], unsigned number, const char *end)
{
    text_string(path, PATH_BYTES_MAX, "%s/hakmem-%d-%d-%u%s", directory, call_getpid(), call_gettid(), number, end);
}

/* Writes a temporary file and renames it, so that a file with the final name is complete. Neither name may exist
 * already, since process ids are reused. Returns 0 or an errno value. */
/* files: when the process crashes */
static int file_write(char path[PATH_BYTES_MAX], const void *bytes, size_t size_bytes)
{
    static char beside[PATH_BYTES_MAX];
    int fd = -1, error = EEXIST;
    for (unsigned number = records; error == EEXIST && number < records + NUMBERS_MAX; number++) {
        path_make(path, number, ".crash");
        path_make(beside, number, ".crash.tmp");
        if (call_access(path, F_OK) == 0) continue;
        fd = call_open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        error = fd < 0 ? -fd : 0;
    }
    if (error != 0) return error;
    error = os_write_all(fd, bytes, size_bytes);
    const int close_error = -call_close(fd);
    if (error == 0) error = close_error;
    if (error == 0) error = -call_rename(beside, path);
    if (error != 0) call_unlink(beside);
    return error;
}

/* Reports a fault in or near a sampled block. If free found the error, guard_misused has reported it already. */
static void say_guard(void *address)
{
    static struct guard_history history;
    if (guard_find((uint64_t)(uintptr_t)address, &history)) guard_say(&history);
}

static void report(int signal_number, const siginfo_t *info, const void *signal_context)
{
    static char line_bytes[LINE_BYTES_MAX], path[PATH_BYTES_MAX];
    struct text line = {line_bytes, sizeof line_bytes, 0};
    if (crash_has_address(signal_number, info)) crash_try(say_guard, info->si_addr);
    if (records == RECORDS_MAX || directory[0] == '\0') return;
    size_t size_bytes;
    const void *record = crash_record_make(signal_number, info, signal_context, &size_bytes);
    int error = file_write(path, record, size_bytes);
    records++;

    text_print(&line, "hakmem: crash: SIG%s", os_signal_name(signal_number));
    if (crash_has_address(signal_number, info)) text_print(&line, " at %#lx", (uintptr_t)info->si_addr);
    if (error == 0) {
        text_print(&line, "; report: %s; read it with: hakmem-stress report %s", path, path);
    } else {
        text_print(&line, "; no report: %s cannot be written: ", path);
        text_add_error(&line, error);
    }
    say(&line);
}

/* --- the handler ------------------------------------------------------------------------------------------ */

static uint64_t self(void)
{
    return (uint64_t)call_getpid() << 32 | (uint32_t)call_gettid();
}

/* Sends the signal to this thread again, with the same siginfo and the default action. It arrives when the handler
 * returns, so the process ends where it crashed, and a core dump shows that place. */
static void end_by_default(int signal_number, siginfo_t *info)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal_number, &standard, NULL);
    const int process = call_getpid(), thread = call_gettid();
    if (call_rt_tgsigqueueinfo(process, thread, signal_number, info) != 0) call_tgkill(process, thread, signal_number);
}

/* Calls the handler that was there before ours, with the signals blocked that would be blocked without us: those that
 * were blocked, those in the action's mask, and the signal itself. */
static void call_previous(struct sigaction *action, int signal_number, siginfo_t *info, void *signal_context)
{
    struct sigaction now = *action;
    if ((now.sa_flags & (int)SA_RESETHAND) != 0) *action = (struct sigaction){.sa_handler = SIG_DFL};
    sigset_t blocked;
    sigorset(&blocked, &((const ucontext_t *)signal_context)->uc_sigmask, &now.sa_mask);
    if ((now.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal_number);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    if ((now.sa_flags & SA_SIGINFO) != 0) {
        now.sa_sigaction(signal_number, info, signal_context);
    } else {
        now.sa_handler(signal_number);
    }
}

/* -1: it is none of ours, and a handler of the program's calls us with it. */
static int index_of(int signal_number)
{
    int i = SIGNALS - 1;
    while (i >= 0 && signals[i] != signal_number) i--;
    return i;
}

/* Does what would have happened without us. */
static void go_on(int which, uint64_t me, int signal_number, siginfo_t *info, void *signal_context)
{
    int i = index_of(signal_number);
    struct sigaction *action = i >= 0 ? &of_signal[i].previous[which] : NULL;
    bool is_sent = info->si_code <= 0; /* by kill, raise or abort: those can be ignored, a fault cannot */
    if (action == NULL || action->sa_handler == SIG_DFL || (action->sa_handler == SIG_IGN && !is_sent)) {
        /* This thread stays the writer, so that no other one ends the process first. */
        end_by_default(signal_number, info);
        return;
    }
    crash_writer_release(me);
    if (action->sa_handler != SIG_IGN) call_previous(action, signal_number, info, signal_context);
}

static int which_is_on_top(int i);

/* Whether this one of the two writes the record. The other has written it where that is on top, or was installed last,
 * and has then called a handler of the program's, which has called here. */
static bool is_to_report(int which, int signal_number)
{
    int i = index_of(signal_number);
    if (i < 0) return true;
    int top = which_is_on_top(i);
    return which == (top >= 0 ? top : of_signal[i].last);
}

static void on_signal(int which, int signal_number, siginfo_t *info, void *signal_context)
{
    int saved = errno;
    uint64_t me = self();
    if (VALIDATE && signal_number == SIGSEGV && !crash_writer_is(me) && hooks.fault_is_told(info, signal_context)) {
        errno = saved;
        return;
    }
    if (crash_writer_is(me)) {
        crash_try_fail();
        end_by_default(signal_number, info);
        return;
    }
    if (is_to_report(which, signal_number) && crash_writer_take(me)) report(signal_number, info, signal_context);
    guard_misuse_forget();
    if (VALIDATE) failfast_kept_forget();
    errno = saved;
    go_on(which, me, signal_number, info, signal_context);
}

static void on_signal_0(int signal_number, siginfo_t *info, void *signal_context)
{
    on_signal(0, signal_number, info, signal_context);
}

static void on_signal_1(int signal_number, siginfo_t *info, void *signal_context)
{
    on_signal(1, signal_number, info, signal_context);
}

/* The one of ours that the system calls; -1: another handler, or none. */
static int which_is_on_top(int i)
{
    struct sigaction now;
    if (sigaction(signals[i], NULL, &now) != 0) return -1;
    return now.sa_sigaction == on_signal_0 ? 0 : now.sa_sigaction == on_signal_1 ? 1 : -1;
}

/* --- installing ------------------------------------------------------------------------------------------- */

/* Stores the directory's absolute path, since the program may change its current directory. */
/* files: at the start, or hak_crash_handler_install */
static int directory_set(const char *dir)
{
    char absolute[PATH_MAX];
    struct stat status = {.st_mode = 0};
    if (realpath(dir, absolute) == NULL) return errno;
    if (strlen(absolute) > DIRECTORY_BYTES_MAX) return ENAMETOOLONG;
    int error = -call_stat(absolute, &status);
    if (error == 0 && !S_ISDIR(status.st_mode)) error = ENOTDIR;
    if (error == 0) error = -call_access(absolute, W_OK | X_OK);
    if (error != 0) return error;
    strcpy(directory, absolute);
    return 0;
}

static void install_for(int i)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigfillset(&action.sa_mask);
    for (int k = 0; k < SIGNALS; k++) sigdelset(&action.sa_mask, signals[k]);
    struct sigaction now;
    if (sigaction(signals[i], NULL, &now) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
        of_signal[i].is_below[0] = of_signal[i].is_below[1] = false; /* no handler is left that could call ours */
    int which = which_is_on_top(i);
    bool is_there = which >= 0; /* the program has taken out the handler that was over it */
    if (!is_there) which = of_signal[i].is_below[0] ? 1 : 0;
    of_signal[i].last = which;
    if (!is_there && !of_signal[i].is_below[which]) {
        action.sa_sigaction = which == 0 ? on_signal_0 : on_signal_1;
        sigaction(signals[i], NULL, &of_signal[i].previous[which]);
        sigaction(signals[i], &action, NULL);
    } /* else both are below handlers of the program's */
    of_signal[i].is_below[which] = false;
}

static void install(void)
{
    int saved = errno;
    crash_record_prepare();
    crash_stack_want(true);
    thread_watch(crash_stack);
    crash_stack(true);
    if (VALIDATE) hooks.fault_stop();
    for (int i = 0; i < SIGNALS; i++) install_for(i);
    installed = true;
    errno = saved;
}

int hak_crash_handler_install(const char *dir)
{
    if (installed && directory[0] != '\0') return EALREADY;
    int saved = errno;
    int error = dir == NULL || *dir == '\0' ? ENOENT : directory_set(dir);
    errno = saved;
    if (error == 0 && !installed) install();
    return error;
}

void crash_start_for_guards(void)
{
    if (!installed) install();
}

void hak_crash_handler_remove(void)
{
    if (!installed) return;
    int saved = errno;
    for (int i = 0; i < SIGNALS; i++) {
        int which = which_is_on_top(i);
        if (which >= 0) sigaction(signals[i], &of_signal[i].previous[which], NULL);
        of_signal[i].is_below[which >= 0 ? which : of_signal[i].last] = which < 0;
    }
    crash_stack_want(false);
    installed = false;
    directory[0] = '\0';
    errno = saved;
}

void hak_crash_context(const struct hak_crash_facts *context)
{
    crash_record_set_context(context);
}

void crash_start(void)
{
    const char *dir = secure_getenv("HAKMEM_CRASH_DIR");
    if (dir == NULL || *dir == '\0') return;
    int error = hak_crash_handler_install(dir);
    if (error == 0 || error == EALREADY) return;
    char line_bytes[LINE_BYTES_MAX];
    struct text line = {line_bytes, sizeof line_bytes, 0};
    text_print(&line, "hakmem: HAKMEM_CRASH_DIR=%s: ", dir);
    text_add_error(&line, error);
    text_add(&line, "; no crash will be reported: name a directory that this program may write to");
    say(&line);
}
