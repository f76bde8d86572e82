/* A process that crashes stops, so that the program that watches it can read its stacks; then it dies of its signal as
 * it would have. The notice lies in memory that both share. C and C++, since conform/plugin/fresh.c stops as well.
 *
 * The handler takes no lock and allocates nothing. Only the first crash of a notice stops; others die at once. */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOTICE_NONE, NOTICE_TAKEN, NOTICE_WAITING, NOTICE_RELEASED };
enum { NOTICE_WAIT_MS_MAX = 120000 };

struct crash_notice {
    int state;
    int process, thread, signal, code;
    unsigned long address;
};

/* A program that a check becomes finds the notice at the start of the file with this descriptor, where there is one. */
enum { NOTICE_DESCRIPTOR = 97 };

static struct crash_notice *crash_notice_here;

static void crash_notice_on_signal(int signal_number, siginfo_t *info, void *context)
{
    struct crash_notice *notice = crash_notice_here;
    int none = NOTICE_NONE;
    (void)context;
    if (__atomic_compare_exchange_n(&notice->state, &none, NOTICE_TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        const struct timespec pause = {0, 1000000};
        notice->process = getpid();
        notice->thread = (int)syscall(SYS_gettid);
        notice->signal = signal_number;
        notice->code = info->si_code;
        notice->address = (unsigned long)info->si_addr;
        /* release: publishes the facts above. Pairs with the acquire in crash_notice_waits. */
        __atomic_store_n(&notice->state, NOTICE_WAITING, __ATOMIC_RELEASE);
        kill(notice->process, SIGSTOP); /* the other threads too, where they are */
        for (int ms = 0; ms < NOTICE_WAIT_MS_MAX; ms++) {
            if (__atomic_load_n(&notice->state, __ATOMIC_ACQUIRE) == NOTICE_RELEASED) break;
            nanosleep(&pause, NULL);
        }
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Installs the handlers in this process, except where the malloc under test has one. The main thread's may run on the
 * alternate stack, which must outlive the process. */
static inline void crash_notice_install(struct crash_notice *notice, void *stack, size_t stack_bytes)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    stack_t alternate;
    memset(&alternate, 0, sizeof alternate);
    alternate.ss_sp = stack;
    alternate.ss_size = stack_bytes;
    sigaltstack(&alternate, NULL);
    crash_notice_here = notice;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* fails where nothing forbids a debugger */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before, action;
        if (sigaction(signals[i], NULL, &before) != 0 || before.sa_handler != SIG_DFL) continue;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = crash_notice_on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(signals[i], &action, NULL);
    }
}

/* For the watching program: whether a process has stopped. */
static inline int crash_notice_waits(struct crash_notice *notice)
{
    return __atomic_load_n(&notice->state, __ATOMIC_ACQUIRE) == NOTICE_WAITING;
}

/* For the watching program: lets it die. */
static inline void crash_notice_release(struct crash_notice *notice)
{
    __atomic_store_n(&notice->state, NOTICE_RELEASED, __ATOMIC_RELEASE);
    kill(notice->process, SIGCONT);
}
