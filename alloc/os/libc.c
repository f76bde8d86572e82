/* libc.c: see libc.h. Empty where libc is a recent glibc. */
#include "os/libc.h"

#if !LIBC_HAS_NAMES
#include <signal.h>

const char *os_signal_name(int signal)
{
    switch (signal) {
    case SIGSEGV: return "SEGV";
    case SIGBUS: return "BUS";
    case SIGFPE: return "FPE";
    case SIGILL: return "ILL";
    case SIGABRT: return "ABRT";
    default: return NULL;
    }
}
#endif

#ifndef __GLIBC__

#include <unistd.h>

#include "os/peek.h"

/* Follows the chain of frame pointers, so it sees only functions that were compiled with them
 * (-fno-omit-frame-pointer). The compiler's own unwinder is no choice: it may need what only glibc has
 * (_dl_find_object). */
__attribute__((noinline)) int os_backtrace(void **frames, int count_max)
{
    int count = 0;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0), two[2];
    while (count < count_max && frame % sizeof frame == 0 &&
           os_peek((const uintptr_t *)frame + HAK_FRAME_RECORD, two, sizeof two)) {
        if (two[1] == 0) break;
        frames[count++] = (void *)two[1];
        if (two[0] <= frame) break; /* the chain must rise */
        frame = two[0];
    }
    return count;
}

/* The kernel puts the environment above the first frame of the first thread, on the same stack. A program may move its
 * environment later, so this reads the address once, before main. */
static uintptr_t first_stack_end;

__attribute__((constructor)) static void remember_stack_end(void)
{
    first_stack_end = (uintptr_t)environ;
}

uintptr_t os_first_stack_end(void)
{
    return first_stack_end;
}

#endif
