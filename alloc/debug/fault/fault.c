/* fault.c: see fault.h. */
#include "debug/fault/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/frame_layout.h"
#include "debug/fault/sealed.h"
#include "debug/trace.h"
#include "os/call.h"
#include "os/registers.h"
#include "report/failfast.h"
#include "report/settings.h"
#include "report/text.h"

enum { NEAR_BYTES = 4096 }; /* how far from a pointer of junk its members may be */

/* Whether a value is eight times the byte, or near that. */
static bool is_near(uint64_t value, int byte)
{
    uint64_t pattern = 0x0101010101010101 * (uint64_t)(unsigned char)byte;
    return value - pattern < NEAR_BYTES || pattern - value < NEAR_BYTES;
}

/* Finds a pointer of the byte: the address of the fault, or, if the processor does not tell it because no memory can have
 * it, a register. */
static bool find_pointer(const siginfo_t *info, const struct os_register *registers, size_t count, int byte,
                         uint64_t *found)
{
    *found = (uintptr_t)info->si_addr;
    if (info->si_code != SI_KERNEL) return is_near(*found, byte);
    for (size_t i = 0; i < count; i++) {
        *found = registers[i].value;
        if (i != OS_REGISTER_SP && is_near(*found, byte)) return true;
    }
    return false;
}

static void refuse_sealed(const void *address, const struct framed *framed)
{
    char words[96];
    text_string(words, sizeof words, "the access is at offset %ld of %zu", (const char *)address - framed->user,
                framed->word.size_bytes);
    failfast_refused(FAILFAST_use_after_free, address, words);
}

/* Reports the fault. True if the program may try again. */
static bool is_told(const siginfo_t *info, const struct os_register *registers, size_t count)
{
    struct framed framed;
    uint64_t pointer;
    if (sealed_find(info->si_addr, &framed)) {
        refuse_sealed(info->si_addr, &framed);
        sealed_open(info->si_addr);
        return true;
    }
    if (info->si_code == SEGV_ACCERR && sealed_is_open(info->si_addr))
        return true; /* unreached: by chance: another thread reported it just now */
    if (find_pointer(info, registers, count, FRAME_JUNK, &pointer))
        failfast_refused(FAILFAST_use_after_free, (const void *)(uintptr_t)pointer,
                         "a pointer that was read from a freed block");
    else if (failfast_fill() > 0 && find_pointer(info, registers, count, failfast_fill(), &pointer))
        failfast_refused(FAILFAST_never_written, (const void *)(uintptr_t)pointer,
                         "a pointer that was read from where nothing was written");
    return false;
}

bool fault_is_told(const siginfo_t *info, const void *signal_context)
{
    struct os_register registers[OS_REGISTERS_MAX];
    if (!frames_on() || info->si_code <= 0) return false; /* sent by a process */
    size_t count = os_registers(signal_context, registers);
    trace_fault_set(registers[OS_REGISTER_PC].value, registers[OS_REGISTER_FP].value, registers[OS_REGISTER_SP].value);
    bool may_retry = is_told(info, registers, count);
    trace_fault_set(0, 0, 0);
    return may_retry;
}

static void on_fault(int signal_number, siginfo_t *info, void *signal_context)
{
    int saved = errno;
    if (!fault_is_told(info, signal_context)) {
        /* A fault comes again, and ends the process. */
        const int process = call_getpid(), thread = call_gettid();
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(signal_number, &standard, NULL);
        if (info->si_code <= 0) call_rt_tgsigqueueinfo(process, thread, signal_number, info);
    }
    errno = saved;
}

void fault_start(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    if (SANITIZED || !frames_on() || sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return;
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
}

void fault_stop(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL}, now;
    if (sigaction(SIGSEGV, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_fault) return;
    sigaction(SIGSEGV, &standard, NULL);
}
