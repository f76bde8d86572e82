/* start.c: runs before main: reads the options, and installs the crash handler if the environment asks for it. The heap
 * itself starts at its first use, which can be long before that if the library is preloaded. */
#include <errno.h>
#include <unistd.h>

#include "cache/thread.h"
#include "crash/crash.h"
#include "os/stack/cfi.h"
#include "debug/explain.h"
#include "debug/explain_next.h"
#include "debug/fault/fault.h"
#include "debug/frame.h"
#include "debug/quarantine.h"
#include "debug/fault/sealed.h"
#include "debug/exit/sweep.h"
#include "guard/guard.h"
#include "hakmem/hakmem.h"
#include "control/background.h"
#include "control/options.h"
#include "control/stats_write.h"
#include "os/lock.h"
#include "os/os.h"
#include "profile/profile.h"
#include "profile/profile_write.h"
#include "profile/sampler.h"
#include "report/first_error.h"
#include "report/modules.h"
#include "report/process.h"
#include "report/writer.h"
#include "superslab/backing.h"

/* Starts the sampling of blocks. It installs the crash handler too, since that reports the faults which sampled blocks
 * find, even where no crash records are wanted. */
static void guard_begin(void)
{
    static const char not_here[] =
        "hakmem: HAKMEM_GUARD_SAMPLE: the debug-validation build does not sample: its frames, on "
        "every block, find more (HAKMEM_FAILFAST_LEVEL)\n";
    static const char no_room[] =
        "hakmem: HAKMEM_GUARD_SAMPLE: the system has no address space for the sampled blocks: none "
        "will be; ask for fewer with HAKMEM_GUARD_SLOTS\n";
    uint32_t rate = (uint32_t)option_value(OPTION_GUARD_SAMPLE);
    if (rate == 0) return;
    if (VALIDATE) {
        os_write_error(not_here, sizeof not_here - 1);
        return;
    }
    crash_start_for_guards();
    if (guard_start((uint32_t)option_value(OPTION_GUARD_SLOTS))) {
        sampling_guard_set(rate);
    } else {
        /* unreached: a limit on address space that holds before main */
        os_write_error(no_room, sizeof no_room - 1);
    }
}

static void background_begin(void)
{
    static const char refused[] = "hakmem: HAKMEM_BACKGROUND: the system refuses a thread: there will be none\n";
    if (option_value(OPTION_BACKGROUND) != 0 && background_set(true) != 0) os_write_error(refused, sizeof refused - 1);
}

static void prewarm_begin(void)
{
    static const char fewer[] = "hakmem: HAKMEM_PREWARM: the system or the limit refuses a part of it\n";
    size_t bytes = options_prewarm_bytes();
    if (bytes > 0 && backing_prewarm(bytes) < bytes) os_write_error(fewer, sizeof fewer - 1);
}

static void stats_begin(void)
{
    static const char refused[] =
        "hakmem: HAKMEM_STATS_SIGNAL: a fault's signal, or none that can be caught: try 10 or 12\n";
    int signal = (int)option_value(OPTION_STATS_SIGNAL);
    if (signal != 0 || option_value(OPTION_STATS) != 0) {
        process_number(); /* a child that does not come from fork() has its parent's */
        first_error_keep();
    }
    if (signal != 0 && !stats_signal_start(signal, STATS_DUE)) os_write_error(refused, sizeof refused - 1);
}

static void profile_begin(void)
{
    static const char refused[] =
        "hakmem: HAKMEM_PROFILE_SIGNAL: a fault's signal, or none that can be caught: try 10 or 12\n";
    static const char not_here[] =
        "hakmem: HAKMEM_PROFILE: the debug-validation build and the sanitizers' do not profile\n";
    static const char no_memory[] =
        "hakmem: HAKMEM_PROFILE: the system has no memory for the samples: there will be none\n";
    uint64_t mean_bytes = option_profile_mean_bytes();
    int signal = (int)option_value(OPTION_PROFILE_SIGNAL);
    if (mean_bytes == 0) return;
    profile_step_set(option_value(OPTION_PROFILE_STEP_MIB) << 20);
    int error = profile_start(mean_bytes, 0);
    if (error == ENOTSUP) os_write_error(not_here, sizeof not_here - 1);
    else if (error != 0) os_write_error(no_memory, sizeof no_memory - 1);
    /* Also without samples: who asks for a profile must not end the process. */
    if (signal != 0 && !stats_signal_start(signal, PROFILE_DUE)) os_write_error(refused, sizeof refused - 1);
}

/* Options that ask for files before exit have them written by a thread of the library's own. */
static void files_begin(void)
{
    bool has_steps = option_value(OPTION_PROFILE_SIGNAL) != 0 || option_value(OPTION_PROFILE_STEP_MIB) != 0;
    if (option_value(OPTION_STATS_SIGNAL) != 0 || (PROFILES && option_profile_mean_bytes() != 0 && has_steps))
        background_write_files();
}

static void profile_end(void)
{
    if (!profile_may_have()) return;
    profile_dump_next("exit");
    profile_stop();
}

__attribute__((constructor)) static void start(void)
{
    thread_process_start();
    process_start();
    if (VALIDATE) modules_start();
    if (VALIDATE) cfi_start(modules_are_fixed);
    if (VALIDATE) explain_start();
    if (VALIDATE) explain_next_start();
    options_read(os_is_privileged() ? NULL : environ);
    crash_start();
    if (VALIDATE) fault_start();
    if (VALIDATE) sealed_start();
    guard_begin();
    prewarm_begin();
    background_begin();
    files_begin();
    stats_begin();
    profile_begin();
}

static void write_last(void *unused)
{
    (void)unused;
    profile_end();
    if (option_value(OPTION_STATS) != 0) stats_write_to_target();
}

__attribute__((destructor)) static void finish(void)
{
    enum { LAST_WAIT_MS = 1000 };
    static const char held[] =
        "hakmem: exit was called within malloc or free, as by a handler of a signal, or another thread is "
        "stopped there: no figures and no profile are written\n";
    if (VALIDATE && frames_on() && !frame_is_changing()) quarantine_finish();
    background_end();
    if (VALIDATE && frames_on()) sweep_finish();
    /* Only then: the writer blocks signals, and a filter of system calls may end a process that has nothing to write. */
    if (!profile_may_have() && option_value(OPTION_STATS) == 0) return;
    if (lock_above_were_free(LOCK_DUMP, LAST_WAIT_MS)) writer_run(write_last, NULL);
    else os_write_error(held, sizeof held - 1);
}
