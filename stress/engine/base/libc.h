// Functions that glibc has and other C libraries lack, or have under another name. With glibc they call glibc; libc.cc
// has the others. Only this file and build.h ask what the suite is compiled for. Any thread may call. Nothing here
// allocates, except the first stack_frames in a process.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdlib.h> // says which libc it is
#include <string.h>
#include <sys/types.h>

#ifdef __GLIBC__
#include <execinfo.h>
#endif

namespace stress {

#ifdef __GLIBC__

// "SEGV"; nullptr if the signal has no name.
inline const char *signal_name(int signal_number)
{
    return sigabbrev_np(signal_number);
}

// "ENOSPC"; nullptr if the error has no name. C libraries other than glibc give "No space left on device".
inline const char *error_name(int error)
{
    return strerrorname_np(error);
}

// Stores the return addresses of the calling function and its callers, at most count_max; returns the number stored.
inline int stack_frames(void **frames, int count_max)
{
    return backtrace(frames, count_max);
}

// A thread created with these attributes, while this object lives, starts with these signals blocked.
class StartMask {
  public:
    StartMask(pthread_attr_t &attributes, const sigset_t &mask) { pthread_attr_setsigmask_np(&attributes, &mask); }
};

#else

const char *signal_name(int signal_number);
const char *error_name(int error);
int stack_frames(void **frames, int count_max);

class StartMask {
  public:
    StartMask(pthread_attr_t &attributes, const sigset_t &mask);  // the calling thread gets the mask too
    ~StartMask();
    StartMask(const StartMask &) = delete;
    StartMask &operator=(const StartMask &) = delete;

  private:
    sigset_t before_;
};

#endif

// The thread that a SIGEV_THREAD_ID timer signals. glibc before 2.38 has no name for the field.
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
inline void signal_thread_set(sigevent &event, pid_t thread)
{
    event.sigev_notify_thread_id = thread;
}

} // namespace stress
