// With glibc there is nothing to do: see libc.h.
#include "engine/base/libc.h"

#ifndef __GLIBC__

#include <unwind.h>

#include <cstdint>

namespace stress {
namespace {

struct Frames {
    void **frames;
    int count, count_max;  // count from -1: the first frame is stack_frames itself
};

_Unwind_Reason_Code add_frame(_Unwind_Context *context, void *argument)
{
    auto &found = *static_cast<Frames *>(argument);
    const std::uintptr_t address = _Unwind_GetIP(context);
    if (address == 0 || found.count == found.count_max) return _URC_END_OF_STACK;
    if (found.count >= 0) found.frames[found.count] = reinterpret_cast<void *>(address);
    found.count++;
    return _URC_NO_REASON;
}

}  // namespace

const char *signal_name(int signal_number)
{
    switch (signal_number) {
    case SIGHUP: return "HUP";
    case SIGINT: return "INT";
    case SIGQUIT: return "QUIT";
    case SIGILL: return "ILL";
    case SIGTRAP: return "TRAP";
    case SIGABRT: return "ABRT";
    case SIGBUS: return "BUS";
    case SIGFPE: return "FPE";
    case SIGKILL: return "KILL";
    case SIGUSR1: return "USR1";
    case SIGSEGV: return "SEGV";
    case SIGUSR2: return "USR2";
    case SIGPIPE: return "PIPE";
    case SIGALRM: return "ALRM";
    case SIGTERM: return "TERM";
    case SIGCHLD: return "CHLD";
    case SIGSTOP: return "STOP";
    case SIGXCPU: return "XCPU";
    case SIGXFSZ: return "XFSZ";
    case SIGPROF: return "PROF";
    case SIGSYS: return "SYS";
    default: return nullptr;
    }
}

const char *error_name(int error)
{
    return strerror(error);
}

int stack_frames(void **frames, int count_max)
{
    Frames found{frames, -1, count_max};
    _Unwind_Backtrace(add_frame, &found);
    return found.count < 0 ? 0 : found.count;
}

StartMask::StartMask(pthread_attr_t &, const sigset_t &mask)
{
    pthread_sigmask(SIG_SETMASK, &mask, &before_);
}

StartMask::~StartMask()
{
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace stress

#endif
